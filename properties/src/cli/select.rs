//! From the command line to the scenarios that are to be run.

use std::path::Path;

use durasim_runtime::{Durability, Profile};

use super::args::Choice;
use crate::registry::{Registry, Vary};
use crate::scenario::{self, Scenario, Store};

/// The one scenario that was named.
pub fn one(registry: &Registry, choice: &Choice) -> Result<Scenario, String> {
    let Some(named) = &choice.scenario else {
        return Err(format!("--scenario: which one? {}", known(registry)));
    };
    let mut scenario = find(registry, named)?;
    change(&mut scenario, choice);
    check(registry, &scenario)?;
    Ok(scenario)
}

/// What a sweep runs, by question: the named scenario as it is, or every registered one; those that
/// are registered for sweeping in all durabilities, stores and profiles.
pub fn sweep(registry: &Registry, choice: &Choice) -> Result<Vec<Vec<Scenario>>, String> {
    if choice.scenario.is_some() {
        return Ok(vec![vec![one(registry, choice)?]]);
    }
    if registry.questions.is_empty() {
        return Err("no scenario is registered; name a file with --scenario".to_owned());
    }
    let mut questions = Vec::new();
    for (scenarios, vary) in &registry.questions {
        let mut variants: Vec<Scenario> = Vec::new();
        for mut variant in scenarios.iter().flat_map(|scenario| varied(scenario, *vary)) {
            change(&mut variant, choice);
            // An option can make of a scenario what it cannot be (no HTTP, and kills); and one that
            // replaces what was varied makes variants equal: one is enough.
            if scenario::check(&variant).is_ok() && !variants.contains(&variant) {
                check(registry, &variant)?;
                variants.push(variant);
            }
        }
        if !variants.is_empty() {
            questions.push(variants);
        }
    }
    match questions.is_empty() {
        true => Err("no registered scenario is possible with these options".to_owned()),
        false => Ok(questions),
    }
}

fn varied(scenario: &Scenario, vary: Vary) -> Vec<Scenario> {
    let (durabilities, stores): (&[_], &[_]) = match vary {
        Vary::Nothing => return vec![scenario.clone()],
        Vary::Profile => (&[scenario.durability], &[scenario.store]),
        // Several workers share no memory.
        Vary::Everything if scenario.workers > 1 => (&DURABILITIES, &[Store::Sqlite]),
        Vary::Everything => (&DURABILITIES, &[Store::Sqlite, Store::Memory]),
    };
    let mut variants = Vec::new();
    for &durability in durabilities {
        for profile in [Profile::Faithful, Profile::Safe] {
            for &store in stores {
                variants.push(Scenario { durability, profile, store, ..scenario.clone() });
            }
        }
    }
    variants
}

const DURABILITIES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

fn find(registry: &Registry, named: &str) -> Result<Scenario, String> {
    if let Some(scenario) = registry.find_scenario(named) {
        return Ok(scenario.clone());
    }
    let path = Path::new(named);
    if path.exists() {
        return scenario::load(path).map_err(|error| error.to_string());
    }
    Err(format!("--scenario: no scenario and no file is named {named:?}; {}", known(registry)))
}

fn known(registry: &Registry) -> String {
    let names: Vec<&str> = registry.scenarios().map(|scenario| scenario.name.as_str()).collect();
    format!("there are {}", names.join(", "))
}

fn change(scenario: &mut Scenario, choice: &Choice) {
    if let Some(shape) = choice.shape {
        scenario.shape = shape.into();
    }
    if let Some(durability) = choice.durability {
        scenario.durability = durability.into();
    }
    if let Some(store) = choice.store {
        scenario.store = store.into();
    }
    if let Some(profile) = choice.profile {
        scenario.profile = profile.into();
    }
}

/// Everything that the scenario names is there, and its graph compiles.
pub fn check(registry: &Registry, scenario: &Scenario) -> Result<(), String> {
    let name = &scenario.name;
    scenario::check(scenario).map_err(|problem| format!("{name}: {problem}"))?;
    registry.graph_of(scenario).map_err(|problem| format!("{name}: {problem}"))?;
    for (i, client) in scenario.clients.iter().enumerate() {
        if registry.models.iter().any(|model| model.name == client.name) {
            let taken = &client.name;
            return Err(format!("{name}: clients[{i}].name: {taken:?} is the name of a model"));
        }
    }
    for (field, names) in
        [("hold", &scenario.expect.hold), ("demonstrates", &scenario.expect.demonstrates)]
    {
        for property in names {
            if registry.find_property(property).is_none() {
                let known: Vec<&str> =
                    registry.properties.iter().map(|known| known.name.as_str()).collect();
                let known = known.join(", ");
                return Err(format!("{name}: expect.{field}: {property:?} is not one of {known}"));
            }
        }
    }
    crate::world::try_compile(registry, scenario).map_err(|problem| {
        let field = if scenario.declared.is_some() { "declared" } else { "graph" };
        format!("{name}: {field}: {:?} does not compile: {problem}", scenario.graph)
    })
}
