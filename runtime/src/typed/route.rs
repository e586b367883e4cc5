use crate::graph::{Goto, Send, StateError};

/// Where a router of a [`super::TypedGraph`] goes: a node's name, a [`Send`], a list of either, or
/// a `Result` of one of these.
#[diagnostic::on_unimplemented(
    message = "a router cannot give `{Self}`",
    note = "it gives a node's name, a `Send`, a list of either, or a `Result` of one of these"
)]
pub trait Route {
    fn route(self) -> Result<Vec<Goto>, StateError>;
}

macro_rules! single {
    ($($target:ty)*) => {$(
        impl Route for $target {
            fn route(self) -> Result<Vec<Goto>, StateError> {
                Ok(vec![self.into()])
            }
        }
    )*};
}

single!(&str String Send Goto);

impl<T: Into<Goto>> Route for Vec<T> {
    fn route(self) -> Result<Vec<Goto>, StateError> {
        Ok(self.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Goto>, const N: usize> Route for [T; N] {
    fn route(self) -> Result<Vec<Goto>, StateError> {
        Ok(self.into_iter().map(Into::into).collect())
    }
}

impl<R: Route> Route for Result<R, StateError> {
    fn route(self) -> Result<Vec<Goto>, StateError> {
        self?.route()
    }
}
