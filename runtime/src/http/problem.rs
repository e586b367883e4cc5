use axum::Json;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A refusal, as an `application/problem+json` body (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub status: u16,
    /// The same for every problem of this kind.
    pub title: &'static str,
    /// What is wrong with this request, naming the thing.
    pub detail: String,
}

impl Problem {
    pub fn new(status: StatusCode, title: &'static str, detail: impl ToString) -> Problem {
        Problem { status: status.as_u16(), title, detail: detail.to_string() }
    }

    pub fn bad_request(title: &'static str, detail: impl ToString) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, title, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let kind = header::HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

pub(super) async fn not_found(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no such resource", uri.path())
}

pub(super) async fn method_not_allowed(uri: Uri) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", uri.path())
}
