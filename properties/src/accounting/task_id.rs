//! Task ids, computed here from the published formula and not by the runtime: XXH3-128 over the
//! checkpoint id's 16 bytes, the task's namespace, the step, the node, the kind, and the node's
//! trigger channels in order.

use xxhash_rust::xxh3::xxh3_128;

/// The id of the task of `node` that starts from the checkpoint `parent`, at the graph's root.
/// `step` is the parent's step plus one.
pub fn pull(parent: &str, step: i64, node: &str, triggers: &[String]) -> String {
    let digits: Vec<u8> = parent.bytes().filter(|byte| *byte != b'-').collect();
    let mut input: Vec<u8> = digits
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    input.extend(format!("{node}{step}{node}__pregel_pull").bytes());
    let mut triggers = triggers.to_vec();
    triggers.sort();
    triggers.iter().for_each(|trigger| input.extend(trigger.bytes()));
    let hex = format!("{:032x}", xxh3_128(&input));
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    /// Ids that the real LangGraph 1.2.9 gave, recorded.
    #[test]
    fn ids_are_those_of_the_real_stack() {
        let recorded = [
            (
                "1f1ebf27-e792-6aca-8000-702697003f41",
                1,
                "a",
                vec!["branch:to:a"],
                "2c0837fa-3413-7398-2334-d09c1260be87",
            ),
            (
                "1f1ebf27-e7a1-617d-8001-421652e02533",
                2,
                "bad",
                vec!["branch:to:bad"],
                "00b43c88-ad57-3a6c-81f3-faad0776adc7",
            ),
            (
                "1f1ebf27-e83d-6652-8002-494cf3ad59b1",
                3,
                "z",
                vec!["join:h+bad:z", "branch:to:z"],
                "bb2e0d3d-283c-c068-c625-9e9aba883842",
            ),
        ];
        for (parent, step, node, triggers, id) in recorded {
            let triggers: Vec<String> = triggers.into_iter().map(str::to_owned).collect();
            assert_eq!(super::pull(parent, step, node, &triggers), id);
        }
    }
}
