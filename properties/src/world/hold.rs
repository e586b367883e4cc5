//! Holding a request at the server's door until a moment has come: how a scenario puts two requests
//! in a chosen order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use durasim_runtime::doors::{Controller, Operation, Pass, Point};
use durasim_sim::World;
use futures::future::BoxFuture;

use super::moments::wait_for;
use crate::scenario::Moment;

/// Which requests are held, and until when. Cloning gives another handle to the same list.
#[derive(Clone, Default)]
pub(super) struct Holds(Arc<Mutex<BTreeMap<String, Moment>>>);

impl Holds {
    /// Holds this request, which is yet to come.
    pub fn hold(&self, request: String, until: Moment) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request, until);
    }

    fn take(&self, request: &str) -> Option<Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(request)
    }
}

/// The gate of a server: only arrivals of held requests wait.
pub(super) struct HoldGate {
    pub world: World,
    pub holds: Holds,
}

impl Controller for HoldGate {
    fn arrive(&self, point: Point) -> BoxFuture<'static, Pass> {
        let held = match point.operation {
            Operation::RequestArrival => self.holds.take(&point.actor),
            _ => None,
        };
        let world = self.world.clone();
        Box::pin(async move {
            if let Some(moment) = held {
                wait_for(&world, &moment).await;
            }
            Pass::free()
        })
    }
}
