//! Leases: exclusive, named, kept by somebody outside the cluster. Spec: membership 3.6, reliability I-26.

pub mod protocol;
