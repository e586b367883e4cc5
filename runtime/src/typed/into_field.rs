/// What a setter of a field of type `F` takes: an `F`; for an `Option<T>` also a `T`; for texts
/// also a `&str`; for a list also an array.
#[diagnostic::on_unimplemented(
    message = "the field holds `{F}`, and cannot be set to `{Self}`",
    label = "not `{F}`"
)]
pub trait IntoField<F> {
    fn into_field(self) -> F;
}

impl<T> IntoField<T> for T {
    fn into_field(self) -> T {
        self
    }
}

impl<T> IntoField<Option<T>> for T {
    fn into_field(self) -> Option<T> {
        Some(self)
    }
}

impl IntoField<String> for &str {
    fn into_field(self) -> String {
        self.to_owned()
    }
}

impl IntoField<Option<String>> for &str {
    fn into_field(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl<T, const N: usize> IntoField<Vec<T>> for [T; N] {
    fn into_field(self) -> Vec<T> {
        self.into()
    }
}

impl<const N: usize> IntoField<Vec<String>> for [&str; N] {
    fn into_field(self) -> Vec<String> {
        self.map(str::to_owned).into()
    }
}
