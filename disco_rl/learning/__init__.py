"""The learning of one agent: acting, replay and the learner step."""
