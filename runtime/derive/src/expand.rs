//! From the struct to its schema and its update.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Result};

use crate::field::{Field, overwriting, refuse_serde};

pub fn state(item: &DeriveInput) -> Result<TokenStream> {
    refuse_serde(&item.attrs)?;
    let Data::Struct(data) = &item.data else {
        return Err(Error::new_spanned(&item.ident, "a state is a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&item.ident, "a state is a struct with named fields"));
    };
    if !item.generics.params.is_empty() {
        return Err(Error::new_spanned(&item.generics, "a state has no parameters"));
    }
    let fields = fields.named.iter().map(Field::parse).collect::<Result<Vec<Field>>>()?;
    let (schema, update) = (schema(item, &fields)?, update(item, &fields));
    Ok(quote!(#schema #update))
}

/// How the struct is declared and read.
fn schema(item: &DeriveInput, fields: &[Field]) -> Result<TokenStream> {
    let name = &item.ident;
    let declarations = fields.iter().map(Field::declaration).collect::<Result<Vec<_>>>()?;
    let keys = fields.iter().map(|field| &field.key);
    let read = fields.iter().map(|Field { name, ty, key, .. }| (name, ty, key));
    let read = read.zip(fields).map(|((name, ty, key), field)| match field.reads_default() {
        true => quote!(#name: state.get_or::<#ty>(#key, ::core::default::Default::default())?),
        false => quote!(#name: state.get_or_nil::<#ty>(#key)?),
    });
    Ok(quote! {
        #[automatically_derived]
        impl ::durasim_runtime::typed::Schema for #name {
            fn fields() -> ::std::vec::Vec<::durasim_runtime::typed::Field> {
                ::std::vec![#(#declarations),*]
            }
        }

        #[automatically_derived]
        impl ::durasim_runtime::typed::FromState for #name {
            fn from_state(
                state: &::durasim_runtime::graph::State,
            ) -> ::core::result::Result<Self, ::durasim_runtime::graph::StateError> {
                ::core::result::Result::Ok(#name { #(#read),* })
            }

            fn keys() -> ::std::vec::Vec<&'static str> {
                ::std::vec![#(#keys),*]
            }
        }
    })
}

/// The partial update with its setters.
fn update(item: &DeriveInput, fields: &[Field]) -> TokenStream {
    let (name, vis) = (&item.ident, &item.vis);
    let update = format_ident!("{name}Update");
    let about = format!("A partial update of [`{name}`]: only what is set is written.");
    let begins = "Begins an update that writes nothing yet.";
    let setters = fields.iter().map(|field| {
        let Field { name, vis, ty, key, docs, .. } = field;
        let overwrite = field.is_reduced().then(|| {
            let method = overwriting(name);
            let about = format!("Makes this the whole of `{name}`, past its reducer.");
            quote! {
                #[doc = #about]
                #vis fn #method(
                    self,
                    value: impl ::durasim_runtime::typed::IntoField<#ty>,
                ) -> Self {
                    let value = ::durasim_runtime::typed::IntoField::<#ty>::into_field(value);
                    Self(self.0.overwrite(#key, value))
                }
            }
        });
        quote! {
            #(#docs)*
            #vis fn #name(self, value: impl ::durasim_runtime::typed::IntoField<#ty>) -> Self {
                let value = ::durasim_runtime::typed::IntoField::<#ty>::into_field(value);
                Self(self.0.set(#key, value))
            }

            #overwrite
        }
    });
    quote! {
        #[automatically_derived]
        impl #name {
            #[doc = #begins]
            #[allow(dead_code)]
            #vis fn update() -> #update {
                ::core::default::Default::default()
            }
        }

        #[doc = #about]
        #[must_use]
        #[derive(
            ::core::fmt::Debug,
            ::core::clone::Clone,
            ::core::default::Default,
            ::core::cmp::PartialEq,
        )]
        #vis struct #update(::durasim_runtime::graph::Update);

        #[automatically_derived]
        #[allow(dead_code)]
        impl #update {
            #(#setters)*
        }

        #[automatically_derived]
        impl ::core::convert::From<#update> for ::durasim_runtime::graph::Update {
            fn from(update: #update) -> Self {
                update.0
            }
        }

        #[automatically_derived]
        impl ::durasim_runtime::graph::IntoCommand for #update {
            fn into_command(self) -> ::durasim_runtime::graph::Command {
                ::durasim_runtime::graph::Command::new().update(self.0)
            }
        }

        #[automatically_derived]
        impl ::durasim_runtime::typed::UpdateOf<#name> for #update {}
    }
}

#[cfg(test)]
mod tests {
    use super::state;

    fn mistake(item: &str) -> String {
        let item = syn::parse_str(item).expect("it is a struct or an enum");
        state(&item).expect_err("a mistake is found").to_string()
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(mistake("enum S { A }"), "a state is a struct");
        assert_eq!(mistake("struct S(u8);"), "a state is a struct with named fields");
        assert_eq!(mistake("struct S<T> { t: T }"), "a state has no parameters");
        let of =
            |attribute: &str, ty: &str| mistake(&format!("struct S {{ {attribute} f: {ty} }}"));
        assert!(of("#[state(apend)]", "Vec<u8>").starts_with("not known here; one of `append`"));
        assert_eq!(of("#[state(append, any)]", "Vec<u8>"), "a key has one kind of channel");
        assert_eq!(of("#[state(append)]", "String"), "`append` needs a `Vec` here");
        assert_eq!(of("#[state(topic)]", "u8"), "`topic` needs a `Vec` here");
        assert!(of("#[state(topic(all))]", "Vec<u8>").contains("topic(accumulates)"));
        assert!(of("#[state(reducer)]", "u8").contains("expected"));
        assert!(of("#[serde(rename = \"g\")]", "u8").contains("`#[state(key"));
    }

    #[test]
    fn a_state_without_mistakes_expands() {
        let item = "pub struct S { #[state(append, key = \"g\")] pub r#f: Vec<u8>, o: Option<u8> }";
        let item = syn::parse_str(item).expect("it is a struct");
        let expanded = state(&item).expect("there is no mistake").to_string();
        for part in ["pub struct SUpdate", "pub fn overwrite_f", "fn o", "\"g\"", "get_or_nil"] {
            assert!(expanded.contains(part), "{part} is missing: {expanded}");
        }
    }
}
