"""What several tests of learning share."""

from factorax.learning import TrainingBatch


def rollout(learner, state):
    """A batch of the policy of this state."""
    _, _, transitions = learner.collector.collect(learner.behaviour(state), state.environments, state.key)
    return TrainingBatch(
        obs=transitions.obs,
        local=learner.see(transitions.obs),
        action=transitions.action,
        psi=transitions.psi,
        next_obs=transitions.next_obs,
        next_local=learner.see(transitions.next_obs),
        terminated=transitions.terminated,
        truncated=transitions.truncated,
    )
