//! Traffic that nothing goes wrong with: conversations that grow, in both pools of which the whole funnel is known.

use super::world::{KV, MUTE, World, prompt};

const USERS: u32 = 3;
const TURNS: u32 = 3;

/// Every turn begins with all turns before it. Ends with everything at rest.
pub(crate) async fn clean(world: &World) {
    for turn in 1..=TURNS {
        for user in 1..=USERS {
            for model in [KV, MUTE] {
                world.complete(model, &prompt(user, 100 * turn), true).await;
            }
        }
        world.at_rest().await;
    }
}
