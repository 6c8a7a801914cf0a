//! I-21: within the safe assumptions the nodes that are left at rest form one cluster: one part of the network, one table of
//! members. auto-down promises nothing of the kind.

/// How many clusters there are at rest, under a strategy.
///
/// # Errors
/// There are two or more.
pub fn at_rest(clusters: usize, strategy: &str) -> Result<(), String> {
    if clusters > 1 && strategy != "auto-down" {
        return Err(format!("{clusters} clusters are left under {strategy}"));
    }
    Ok(())
}
