//! The answers of a sweep as tables for people.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{LineStyle, Table, TableStyle};

use super::args::Choice;
use super::worker::Verdict;
use crate::property::Violation;
use crate::registry::Registry;
use crate::scenario::Scenario;

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// How many findings of a question are shown in full.
const SHOWN: usize = 5;

/// One question, asked in several variants.
pub struct Question {
    pub variants: Vec<Variant>,
}

/// One variant and what its seeds gave.
pub struct Variant {
    pub scenario: Scenario,
    seeds: usize,
    executed: usize,
    recorded: usize,
    explained: BTreeMap<String, usize>,
    /// How many seeds broke a property, by name; demonstrations included.
    broken: BTreeMap<String, usize>,
    /// The first seed that broke each property that must hold.
    findings: BTreeMap<String, (u64, Violation)>,
}

impl Question {
    pub fn new(variants: Vec<Scenario>) -> Question {
        let variant = |scenario| Variant {
            scenario,
            seeds: 0,
            executed: 0,
            recorded: 0,
            explained: BTreeMap::new(),
            broken: BTreeMap::new(),
            findings: BTreeMap::new(),
        };
        Question { variants: variants.into_iter().map(variant).collect() }
    }
}

impl Variant {
    pub fn take(&mut self, verdict: Verdict) {
        self.seeds += 1;
        self.executed += verdict.executed;
        self.recorded += verdict.recorded;
        for (reason, count) in verdict.explained {
            *self.explained.entry(reason).or_default() += count;
        }
        let all = verdict.findings.iter().chain(&verdict.demonstrated);
        for property in all.map(|violation| &violation.property).collect::<BTreeSet<_>>() {
            *self.broken.entry(property.clone()).or_default() += 1;
        }
        for violation in verdict.findings {
            let first = self.findings.entry(violation.property.clone());
            let seed = verdict.seed;
            // Verdicts come in any order; the smallest seed is the one to show.
            let slot = first.or_insert_with(|| (seed, violation.clone()));
            if seed < slot.0 {
                *slot = (seed, violation);
            }
        }
    }
}

/// One table per question, then its findings with the commands that replay them.
pub fn print_questions(registry: &Registry, choice: &Choice, questions: &[Question]) {
    for question in questions {
        print_question(registry, choice, question);
    }
}

fn print_question(registry: &Registry, choice: &Choice, question: &Question) {
    let Some(first) = question.variants.first().map(|variant| &variant.scenario) else { return };
    let names: BTreeSet<&str> =
        question.variants.iter().map(|variant| variant.scenario.name.as_str()).collect();
    let several = names.len() > 1;
    let title = if several { "in comparison" } else { first.name.as_str() };
    say!("\n{title} — {}", first.about);
    // Every property that some variant names, in the order in which they are first named.
    let mut checked: Vec<&String> = Vec::new();
    for variant in &question.variants {
        let expect = &variant.scenario.expect;
        for property in expect.hold.iter().chain(&expect.demonstrates) {
            if !checked.contains(&property) {
                checked.push(property);
            }
        }
    }
    let mut table = Table::new();
    table.load_style(STYLE);
    let fixed = ["durability", "profile", "runs", "executed", "on edges", "explained rest"];
    let header = several.then_some("scenario").into_iter().chain(fixed).map(str::to_owned);
    table.set_header(header.chain(checked.iter().map(|name| name.to_string())));
    for group in grouped(&question.variants) {
        let sum = |of: fn(&Variant) -> usize| group.iter().map(|v| of(v)).sum::<usize>();
        let mut explained: BTreeMap<&str, usize> = BTreeMap::new();
        for (reason, count) in group.iter().flat_map(|variant| &variant.explained) {
            *explained.entry(reason).or_default() += count;
        }
        let explained = explained.iter().map(|(reason, count)| format!("{count} {reason}"));
        let scenario = &group[0].scenario;
        let mut row = vec![
            scenario.durability.name().to_owned(),
            scenario.profile.name().to_owned(),
            sum(|variant| variant.seeds).to_string(),
            sum(|variant| variant.executed).to_string(),
            sum(|variant| variant.recorded).to_string(),
            explained.collect::<Vec<_>>().join("\n"),
        ];
        if several {
            row.insert(0, scenario.name.clone());
        }
        for property in &checked {
            let broken: usize = group.iter().filter_map(|v| v.broken.get(*property)).sum();
            let holds = scenario.expect.hold.contains(property);
            let shows = scenario.expect.demonstrates.contains(property);
            row.push(match broken {
                _ if !holds && !shows => "not asked".to_owned(),
                0 => "holds".to_owned(),
                broken if holds => format!("BROKEN in {broken}"),
                broken => format!("shown in {broken}"),
            });
        }
        table.add_row(row);
    }
    say!("{table}");
    // Each scenario's own declarations, seen in none of its variants.
    for name in &names {
        let mine = || question.variants.iter().filter(|variant| variant.scenario.name == *name);
        let declared = mine().next().map(|variant| &variant.scenario.expect.demonstrates);
        for property in declared.into_iter().flatten() {
            if mine().all(|variant| !variant.broken.contains_key(property)) {
                say!("Declared and never seen: {name} did not break {property:?} in any seed.");
            }
        }
    }
    let findings = question.variants.iter().flat_map(|variant| {
        variant.findings.values().map(|(seed, violation)| (&variant.scenario, *seed, violation))
    });
    let findings: Vec<_> = findings.collect();
    for (scenario, seed, violation) in findings.iter().take(SHOWN) {
        say!("\nFinding: {} on thread {}", violation.property, violation.thread);
        say!("  {}", violation.evidence);
        let command = scenario.replay_command(registry, choice.name_of(scenario), *seed);
        say!("  replay: {command}");
    }
    if let Some(more) = findings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        say!("\nand {more} more findings of this question; --json lists them all");
    }
}

/// Variants that differ only in their store share a row.
fn grouped(variants: &[Variant]) -> Vec<Vec<&Variant>> {
    let key = |variant: &Variant| {
        let scenario = &variant.scenario;
        (scenario.name.clone(), scenario.durability, scenario.profile)
    };
    let mut groups: Vec<Vec<&Variant>> = Vec::new();
    for variant in variants {
        match groups.iter_mut().find(|group| key(group[0]) == key(variant)) {
            Some(group) => group.push(variant),
            None => groups.push(vec![variant]),
        }
    }
    groups
}
