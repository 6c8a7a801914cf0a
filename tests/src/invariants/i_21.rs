//! I-21: within the safe assumptions the nodes that are left at rest form one cluster: one part of the
//! network, one table of members. With lease-majority always, as its lease is exclusive; auto-down promises
//! nothing of the kind.

/// How many clusters there are at rest, under a strategy.
///
/// # Errors
/// There are two or more, and the strategy promises that there are not.
pub fn at_rest(clusters: usize, strategy: &str, is_safe: bool) -> Result<(), String> {
    let is_promised = match strategy {
        "lease-majority" => true,
        "auto-down" => false,
        _ => is_safe,
    };
    if clusters > 1 && is_promised {
        return Err(format!("{clusters} clusters are left under {strategy}"));
    }
    Ok(())
}
