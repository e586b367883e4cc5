//! What one field of the struct says.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, GenericArgument, Ident, LitStr, PathArguments, Result, Type, Visibility,
};

pub struct Field {
    pub name: Ident,
    pub vis: Visibility,
    pub ty: Type,
    /// The key's name in the state.
    pub key: String,
    /// The doc comment.
    pub docs: Vec<Attribute>,
    pub channel: Channel,
    /// An empty channel reads as the type's default.
    pub has_default: bool,
}

pub enum Channel {
    LastValue,
    Append,
    Add,
    Reducer(Box<Expr>),
    Any,
    Untracked,
    Topic { accumulates: bool },
}

const KNOWN: &str = "one of `append`, `add`, `reducer = f`, `any`, `untracked`, `topic`, \
                     `topic(accumulates)`, and `default`, `key = \"..\"`";

impl Field {
    pub fn parse(field: &syn::Field) -> Result<Field> {
        let Some(name) = field.ident.clone() else {
            return Err(Error::new(field.span(), "a key of the state needs a name"));
        };
        let (mut channel, mut has_default, mut key) = (None, false, name.unraw().to_string());
        refuse_serde(&field.attrs)?;
        for attribute in field.attrs.iter().filter(|a| a.path().is_ident("state")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("default") {
                    has_default = true;
                } else if meta.path.is_ident("key") {
                    key = meta.value()?.parse::<LitStr>()?.value();
                } else if let Some(found) = Channel::parse(&meta)? {
                    if channel.replace(found).is_some() {
                        return Err(meta.error("a key has one kind of channel"));
                    }
                } else {
                    return Err(meta.error(format!("not known here; {KNOWN}")));
                }
                Ok(())
            })?;
        }
        let docs = field.attrs.iter().filter(|a| a.path().is_ident("doc")).cloned().collect();
        let channel = channel.unwrap_or(Channel::LastValue);
        let (vis, ty) = (field.vis.clone(), field.ty.clone());
        Ok(Field { name, vis, ty, key, docs, channel, has_default })
    }

    /// The call that declares the key.
    pub fn declaration(&self) -> Result<TokenStream> {
        let (key, ty, item) = (&self.key, &self.ty, self.item()?);
        let field = quote!(::durasim_runtime::typed::Field);
        Ok(match &self.channel {
            Channel::LastValue => quote!(#field::last_value::<#ty>(#key)),
            Channel::Append => quote!(#field::append::<#item>(#key)),
            Channel::Add => quote!(#field::add::<#ty>(#key)),
            Channel::Reducer(fold) => quote!(#field::reduced::<#ty, _>(#key, #fold)),
            Channel::Any => quote!(#field::any::<#ty>(#key)),
            Channel::Untracked => quote!(#field::untracked::<#ty>(#key)),
            Channel::Topic { accumulates } => quote!(#field::topic::<#item>(#key, #accumulates)),
        })
    }

    /// Does an empty channel read as the type's default?
    pub fn reads_default(&self) -> bool {
        self.has_default || self.is_reduced() || matches!(self.channel, Channel::Topic { .. })
    }

    pub fn is_reduced(&self) -> bool {
        matches!(self.channel, Channel::Append | Channel::Add | Channel::Reducer(_))
    }

    /// What a list holds, for channels that need one.
    fn item(&self) -> Result<Option<&Type>> {
        let what = match self.channel {
            Channel::Append => "append",
            Channel::Topic { .. } => "topic",
            _ => return Ok(None),
        };
        let of_vec = || {
            let Type::Path(path) = &self.ty else { return None };
            let last = path.path.segments.last().filter(|last| last.ident == "Vec")?;
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
            match arguments.args.first()? {
                GenericArgument::Type(item) => Some(item),
                _ => None,
            }
        };
        match of_vec() {
            Some(item) => Ok(Some(item)),
            None => Err(Error::new(self.ty.span(), format!("`{what}` needs a `Vec` here"))),
        }
    }
}

impl Channel {
    fn parse(meta: &ParseNestedMeta) -> Result<Option<Channel>> {
        let is = |name: &str| meta.path.is_ident(name);
        Ok(Some(if is("append") {
            Channel::Append
        } else if is("add") {
            Channel::Add
        } else if is("reducer") {
            Channel::Reducer(Box::new(meta.value()?.parse()?))
        } else if is("any") {
            Channel::Any
        } else if is("untracked") {
            Channel::Untracked
        } else if is("topic") {
            let mut accumulates = false;
            if meta.input.peek(syn::token::Paren) {
                meta.parse_nested_meta(|inner| {
                    if !inner.path.is_ident("accumulates") {
                        return Err(inner.error("`topic` or `topic(accumulates)`"));
                    }
                    accumulates = true;
                    Ok(())
                })?;
            }
            Channel::Topic { accumulates }
        } else {
            return Ok(None);
        }))
    }
}

/// serde's attributes would say what is not done: fields are read and written one by one.
pub fn refuse_serde(attributes: &[Attribute]) -> Result<()> {
    match attributes.iter().find(|attribute| attribute.path().is_ident("serde")) {
        None => Ok(()),
        Some(attribute) => Err(Error::new(
            attribute.span(),
            "a state's fields are read one by one, so serde's attributes would not be seen here; \
             use `#[state(key = \"..\")]` and `#[state(default)]`",
        )),
    }
}

/// `overwrite_` and the field's name.
pub fn overwriting(name: &Ident) -> Ident {
    Ident::new(&format!("overwrite_{}", name.unraw()), Span::call_site())
}
