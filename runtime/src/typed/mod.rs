//! State as a struct of the user's.
//!
//! Deriving [`macro@State`] makes a struct the schema of a graph: a field is a key, and its
//! attribute is the key's channel. Nodes of a [`TypedGraph`] take the struct and return an update
//! that the derive makes with it. Underneath is a [`crate::StateGraph`] like any other: the same
//! channels, the same stored values.

mod field;
mod graph;
mod into_field;
mod route;

use serde::de::DeserializeOwned;

use crate::graph::{Command, State, StateError, Update};

/// Makes a struct with named fields the state of a [`TypedGraph`], and a struct `<Name>Update`
/// beside it, which `<Name>::update()` begins and whose setters are named as the fields are, and
/// are as visible. (For a struct that is itself called `State`, import the derive from here.)
///
/// Every field is a key of the state of the same name. Its type must be `Serialize` and
/// `DeserializeOwned`; the struct itself need not be, as its fields are read one by one.
///
/// | `#[state(..)]` | what a write does | while nothing was written |
/// |---|---|---|
/// | - | replaces the value; two in one step are an error | `None` for an `Option`, else an error |
/// | `append` | adds its items (`Vec`) | empty |
/// | `add` | is added (an integer) | 0 |
/// | `reducer = f` | `f(value, write)`: a `T`, or a `Result<T, _>` to refuse it | `T::default()` |
/// | `any` | replaces the value, for one step; several are taken to agree | as without attribute |
/// | `untracked` | replaces the value; no checkpoint holds it | as without attribute |
/// | `topic` | adds its items (`Vec`), for one step | empty |
/// | `topic(accumulates)` | adds its items (`Vec`) | empty |
///
/// Beside any of them may stand `default` (an empty channel reads as `T::default()`) and
/// `key = ".."` (a name for the key that differs from the field's). Fields with `append`, `add` or
/// `reducer` have a second setter, `overwrite_<field>`, whose value goes past the reducer.
///
/// Renaming and the like by serde's attributes would not be seen here, so they are refused.
///
/// ```
/// use durasim_runtime::{Doors, END, NodeContext, NodeError, Profile, START, State, TypedGraph};
///
/// #[derive(State)]
/// struct Booking {
///     #[state(append)]
///     messages: Vec<String>,
///     answer: Option<String>,
/// }
///
/// async fn plan(booking: Booking, _: NodeContext) -> Result<BookingUpdate, NodeError> {
///     let said = booking.messages.len();
///     Ok(Booking::update().answer("yes").messages([format!("heard {said}")]))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let graph = TypedGraph::<Booking>::new("booking")
///     .node("plan", plan)
///     .edge(START, "plan")
///     .edge("plan", END)
///     .compile(None, &Doors::production(), Profile::Safe.options());
/// # assert!(graph.is_ok());
/// # }
/// ```
///
/// What does not fit does not compile:
///
/// ```compile_fail,E0277
/// # use durasim_runtime::State;
/// # #[derive(State)]
/// # struct Booking { answer: Option<String> }
/// let update = Booking::update().answer(7);
/// ```
pub use durasim_derive::State;

pub use field::{Field, Integer};
pub use graph::TypedGraph;
pub use into_field::IntoField;
pub use route::Route;

/// A struct that declares a graph's state. Derive it with [`macro@State`].
pub trait Schema: FromState {
    /// The keys, in the order of their declaration.
    fn fields() -> Vec<Field>;
}

/// What a node or a router of a [`TypedGraph`] may take.
///
/// That is any struct that derives [`macro@State`]: the graph's own, or one with some of its keys.
/// Beside those: [`struct@State`] for the state as it is, [`Argument`] for what a Send carries, and `()`.
#[diagnostic::on_unimplemented(
    message = "a node or router cannot take `{Self}`",
    note = "it takes a struct that derives `State`, `Argument<T>`, `State` itself, or `()`"
)]
pub trait FromState: Sized + Send + 'static {
    /// The error names the key that is missing or does not fit.
    fn from_state(state: &State) -> Result<Self, StateError>;

    /// The keys that are read, which must be keys of the graph.
    fn keys() -> Vec<&'static str> {
        vec![]
    }
}

impl FromState for State {
    fn from_state(state: &State) -> Result<State, StateError> {
        Ok(state.clone())
    }
}

impl FromState for () {
    fn from_state(_: &State) -> Result<(), StateError> {
        Ok(())
    }
}

/// What a [`crate::graph::Send`] carries, which its node gets instead of the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromState for Argument<T> {
    fn from_state(state: &State) -> Result<Argument<T>, StateError> {
        state.read().map(Argument)
    }
}

impl State {
    /// The state as a struct that derives [`macro@State`].
    pub fn to<T: FromState>(&self) -> Result<T, StateError> {
        T::from_state(self)
    }
}

/// What a node of a graph over `S` may return: the update that the derive made for `S`, a
/// [`Command`] with one, or `()`. An [`Update`] by keys is let through as it is.
#[diagnostic::on_unimplemented(
    message = "a node of a graph over `{S}` cannot return `{Self}`",
    note = "it returns the update of `{S}`, a `Command` with one, an untyped `Update`, or `()`"
)]
pub trait UpdateOf<S> {}

impl<S> UpdateOf<S> for () {}
impl<S> UpdateOf<S> for Update {}
impl<S, U: UpdateOf<S>> UpdateOf<S> for Command<U> {}
