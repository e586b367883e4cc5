//! The simulation binary of this repository: the graphs and scenarios that come with it.

fn main() -> std::process::ExitCode {
    let registry = durasim_properties::Registry::builtin().program("cargo xtask");
    durasim_properties::main(registry)
}
