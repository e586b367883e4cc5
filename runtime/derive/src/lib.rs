//! The derive behind durasim-runtime's typed state. That crate documents it and exports it.

mod expand;
mod field;

#[proc_macro_derive(State, attributes(state))]
pub fn state(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let expanded = syn::parse(item).and_then(|item| expand::state(&item));
    expanded.unwrap_or_else(|error| error.into_compile_error()).into()
}
