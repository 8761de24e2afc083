//! Settings of what happens when workers fail.

use kvroute_router::config::{BreakerConfig, HealthConfig, RetryConfig};

use super::problem::Problem;
use super::raw::RawSection;
use super::settings as key;

/// When a worker's own failures take it out.
pub(super) fn breaker(section: &RawSection) -> Result<BreakerConfig, Problem> {
    let config = BreakerConfig {
        enabled: section.get(&key::POOL_BREAKER_ENABLED)?,
        failures: section.get(&key::POOL_BREAKER_FAILURES)?.0,
        share: section.get(&key::POOL_BREAKER_SHARE)?.0,
        window: section.get(&key::POOL_BREAKER_WINDOW)?.0,
        cooldown: section.get(&key::POOL_BREAKER_COOLDOWN)?.0,
        longest: section.get(&key::POOL_BREAKER_LONGEST)?.0,
    };
    if config.longest < config.cooldown {
        return Err(Problem::Rule(format!(
            "{} is {:?}, which is shorter than cooldown with {:?}; make it at least as long",
            section.path_of(&key::POOL_BREAKER_LONGEST.row),
            config.longest,
            config.cooldown
        )));
    }
    Ok(config)
}

/// How workers are asked whether they are well.
pub(super) fn health(section: &RawSection) -> Result<HealthConfig, Problem> {
    Ok(HealthConfig {
        interval: section.get(&key::POOL_HEALTH_INTERVAL)?.0,
        timeout: section.get(&key::POOL_HEALTH_TIMEOUT)?.0,
        failures: section.get(&key::POOL_HEALTH_FAILURES)?.0,
        successes: section.get(&key::POOL_HEALTH_SUCCESSES)?.0,
    })
}

/// How often requests are sent again.
pub(super) fn retries(section: &RawSection) -> Result<RetryConfig, Problem> {
    Ok(RetryConfig {
        limit: section.get(&key::POOL_RETRIES_LIMIT)?.0,
        share: section.get(&key::POOL_RETRIES_SHARE)?.0,
        floor: section.get(&key::POOL_RETRIES_FLOOR)?.0,
    })
}
