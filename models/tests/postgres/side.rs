//! What scripts run on: the real server, the model, or the model behind a pooler.

use durasim_cluster::Cluster;
use durasim_models::postgres::{Pooler, Postgres, PostgresSettings};
use tokio::net::TcpStream;
use tokio_postgres::config::Host;

use crate::client::{BoxedStream, Login};

#[derive(Clone)]
pub enum Side {
    Real { address: String, login: Login },
    Model(Postgres),
    Pooler(Pooler),
}

impl Side {
    pub fn real(cluster: &Cluster, label: &str) -> Side {
        let config: tokio_postgres::Config = cluster.database(label).parse().unwrap();
        let Host::Tcp(host) = &config.get_hosts()[0] else { panic!("the cluster is on TCP") };
        let login = Login {
            user: config.get_user().unwrap().to_owned(),
            password: config.get_password().unwrap_or_default().to_vec(),
            database: config.get_dbname().unwrap().to_owned(),
        };
        Side::Real { address: format!("{host}:{}", config.get_ports()[0]), login }
    }

    pub fn model(settings: PostgresSettings) -> Side {
        Side::Model(Postgres::new(settings))
    }

    pub fn login(&self) -> Login {
        match self {
            Side::Real { login, .. } => login.clone(),
            Side::Model(_) | Side::Pooler(_) => Login {
                user: "durasim".to_owned(),
                password: Vec::new(),
                database: "durasim".to_owned(),
            },
        }
    }

    pub async fn stream(&self) -> BoxedStream {
        match self {
            Side::Real { address, .. } => {
                let stream = TcpStream::connect(address).await.expect("the server runs");
                stream.set_nodelay(true).unwrap();
                Box::new(stream)
            }
            Side::Model(postgres) => Box::new(postgres.connect()),
            Side::Pooler(pooler) => Box::new(pooler.connect()),
        }
    }
}
