//! Bytes of values and deltas.
