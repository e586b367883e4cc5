//! temporary
use crate::registry::Registry;
pub fn main(registry: Registry) {
    #[cfg(madsim)]
    {
        let s = registry.scenarios[0].clone();
        let o = crate::world::run(
            &registry,
            &s,
            crate::world::RunPlan { seed: 1, ..Default::default() },
        );
        for e in &o.trace {
            println!("{e}");
        }
        println!("{:?} {:?}", o.crash, o.leaked);
        for p in &registry.properties {
            println!("{} {:?}", p.name, p.check(&o));
        }
    }
    let _ = registry;
}
