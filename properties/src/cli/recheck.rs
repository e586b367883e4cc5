//! A sweep's word is only worth something if its seeds replay: findings, and a sample of all the
//! rest, are run again in a fresh process and must give the same trace.

use super::pool;
use super::simulate::own_binary;
use super::worker::{Job, Verdict};
use crate::scenario::Scenario;

/// Seeds that this divides are sampled.
const SAMPLE: u64 = 50;
/// Findings that are run again at most.
const MOST_FINDINGS: usize = 500;

/// The runs that are to be had again.
#[derive(Default)]
pub struct Recheck {
    pub findings: usize,
    jobs: Vec<Job>,
    hashes: Vec<u64>,
}

impl Recheck {
    /// Takes the run in if it is a finding, or its turn in the sample.
    pub fn consider(&mut self, scenario: &Scenario, verdict: &Verdict) {
        let is_finding = !verdict.findings.is_empty() && self.findings < MOST_FINDINGS;
        if is_finding || verdict.seed.is_multiple_of(SAMPLE) {
            self.findings += usize::from(is_finding);
            let (scenario, seeds) = (scenario.clone(), vec![verdict.seed]);
            self.jobs.push(Job { id: self.jobs.len(), scenario, seeds });
            self.hashes.push(verdict.hash);
        }
    }

    /// Runs them again; gives their number, and those whose trace differs.
    pub fn run(self, workers: usize) -> Result<(usize, Vec<(Scenario, u64)>), String> {
        let mut differing = Vec::new();
        let again = self.jobs.clone().into_iter();
        pool::run(&own_binary()?, workers, again, |verdict| {
            if verdict.hash != self.hashes[verdict.job] {
                let job = &self.jobs[verdict.job];
                differing.push((job.scenario.clone(), verdict.seed));
            }
        })?;
        Ok((self.jobs.len(), differing))
    }
}
