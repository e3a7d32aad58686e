"""The published settings of agents, number by number."""

from disco_rl import agent


def test_published_settings_disco():
  config = agent.get_settings_disco().to_dict()
  net = config['update_rule'].pop('net')
  option = net.pop('input_option')
  assert 'input_option' not in net['meta_rnn_kwargs']  # The net's is its own.
  assert (len(option.base), len(option.action_conditional)) == (16, 8)
  assert net == dict(
    name='lstm',
    prediction_size=600,
    hidden_size=256,
    embedding_size=(16, 1),
    policy_target_channels=(16,),
    policy_channels=(16, 2),
    output_stddev=0.3,
    aux_stddev=0.3,
    policy_target_stddev=0.3,
    state_stddev=1.0,
    meta_rnn_kwargs=dict(
      policy_channels=(16, 2),
      embedding_size=(16,),
      pred_embedding_size=(16, 1),
      hidden_size=128,
    ),
  )
  assert config == dict(
    hyper_params=dict(
      pi_cost=1.0,
      y_cost=1.0,
      z_cost=1.0,
      aux_policy_cost=1.0,
      value_cost=0.2,
      target_params_coeff=0.9,
      value_fn_td_lambda=0.95,
      discount_factor=0.997,
    ),
    update_rule_name='disco',
    update_rule=dict(value_discount=0.997, num_bins=601, max_abs_value=300.0),
    learning_rate=3e-4,
    max_abs_update=1.0,
    net_settings=dict(
      name='mlp',
      net_args=dict(
        dense=(512, 512),
        model_arch_name='lstm',
        head_w_init_std=1e-2,
        model_kwargs=dict(head_mlp_hiddens=(128,), lstm_size=128),
      ),
    ),
  )


def test_published_settings_actor_critic():
  assert agent.get_settings_actor_critic().to_dict() == dict(
    hyper_params=dict(
      discount_factor=0.997,
      vtrace_lambda=0.95,
      entropy_cost=0.2,
      pg_cost=1.0,
      value_cost=0.5,
    ),
    update_rule_name='actor_critic',
    update_rule=dict(
      categorical_value=True,
      num_bins=601,
      max_abs_value=300.0,
      nonlinear_value_transform=True,
      normalize_adv=False,
      normalize_td=False,
    ),
    learning_rate=5e-4,
    max_abs_update=1.0,
    net_settings=dict(
      name='mlp',
      net_args=dict(
        dense=(64, 32, 32),
        model_arch_name='lstm',
        head_w_init_std=1e-2,
        model_kwargs=dict(head_mlp_hiddens=(64,), lstm_size=64),
      ),
    ),
  )
