//! The simulation binary of this repository: the graphs and scenarios that come with it.

/// Runs hand their memory on to the next one. Left out, everything works the same, only slower.
#[cfg(madsim)]
#[global_allocator]
static HEAP: durasim_sim::Heap = durasim_sim::Heap;

fn main() -> std::process::ExitCode {
    let registry = durasim_properties::Registry::builtin().program("cargo xtask");
    durasim_properties::main(registry)
}
