"""The published harness's numbers for functions without parameters."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from disco_rl import optimizers
from disco_rl import types
from disco_rl import utils
from disco_rl.update_rules import input_transforms
from disco_rl.value_fns import value_utils
from tests.support import golden


def test_optimizer():
  tx = optimizers.scale_by_adam_sg_denom()
  with golden.opened('optimizer') as g:
    grads = [g.nested(f'grads/{i}') for i in range(4)]
    state = tx.init(g.nested('params'))
    assert isinstance(state, optax.ScaleByAdamState)
    for i, grad in enumerate(grads):
      updates, state = tx.update(grad, state)
      g.check(updates, f'updates/{i}')
      g.check(state, f'states/{i}')

    def weighted_updates(s):
      total, state = 0.0, tx.init(grads[0])
      for i, grad in enumerate(grads):
        scaled = jax.tree.map(lambda x: s * x + 0.1 * s**2, grad)
        updates, state = tx.update(scaled, state)
        total += (i + 1) * sum(jnp.sum(u) for u in jax.tree.leaves(updates))
      return total

    value, grad = jax.value_and_grad(weighted_updates)(g['meta/s'])
    g.check_array(value, 'meta/value')
    g.check_array(grad, 'meta/grad', golden.GRADIENTS)


def test_moving_average():
  with golden.opened('moving_average') as g:
    for decay in (0.99, 0.9):
      average = utils.MovingAverage(jnp.zeros([]), decay=decay)
      state = average.init_state()
      for i in range(3):
        at = f'decay_{decay}/{i}'
        x = g[f'{at}/x']
        state = average.update_state(x, state, None)
        g.check(state, f'{at}/state')
        g.check_array(average.normalize(x, state), f'{at}/norm')
        g.check_array(
          average.normalize(x, state, subtract_mean=False),
          f'{at}/norm_no_mean',
        )


def test_value_outs():
  average = utils.MovingAverage(jnp.zeros([]), decay=0.9)

  def check(g, case, rollout, pi_logits, **kwargs):
    ema_state = types.EmaState(**g.nested(f'{case}/ema_state'))
    net_outs = dict(
      value_net_out=None,
      q_net_out=None,
      target_value_net_out=None,
      target_q_net_out=None,
    )
    outs, adv_ema_state, td_ema_state = value_utils.get_value_outs(
      **{**net_outs, **kwargs},
      rollout=rollout,
      pi_logits=pi_logits,
      discount=0.97,
      lambda_=0.9,
      nonlinear_transform=True,
      adv_ema_state=ema_state,
      adv_ema_fn=average,
      td_ema_state=ema_state,
      td_ema_fn=average,
    )
    g.check(outs, f'{case}/value_outs')
    g.check(adv_ema_state, f'{case}/adv_ema_state')
    g.check(td_ema_state, f'{case}/td_ema_state')

  with golden.opened('value_utils') as g:
    check(
      g,
      'vtrace_scalar',
      types.ActorRollout(**g.nested('vtrace_scalar/rollout'), states={}),
      g['vtrace_scalar/pi_logits'],
      value_net_out=g['vtrace_scalar/value_net_out'],
    )
    rollout = types.UpdateRuleInputs(**g.nested('vtrace_categorical/rollout'))
    categorical = dict(
      categorical_value=True, max_abs_value=5.0, drop_last=False
    )
    check(
      g,
      'vtrace_categorical',
      rollout,
      rollout.agent_out['logits'],
      value_net_out=g['vtrace_categorical/value_net_out'],
      **categorical,
    )
    rollout = types.UpdateRuleInputs(**g.nested('retrace/rollout'))
    check(
      g,
      'retrace',
      rollout,
      rollout.agent_out['logits'],
      q_net_out=rollout.agent_out['q'],
      target_q_net_out=g['retrace/target_q_net_out'],
      **categorical,
    )
    for categorical_value in (False, True):
      for nonlinear in (False, True):
        at = f'loss_cat{int(categorical_value)}_nl{int(nonlinear)}'
        flags = (nonlinear, categorical_value, 5.0)
        net_out = g[f'{at}/net_out']
        g.check_array(
          value_utils.value_loss_from_target(
            net_out, g[f'{at}/target'], *flags
          ),
          f'{at}/from_target',
        )
        g.check_array(
          value_utils.value_loss_from_td(net_out, g[f'{at}/td'], *flags),
          f'{at}/from_td',
        )


def test_input_transforms():
  with golden.opened('input_transforms') as g:
    assert g['x3'].shape == (6, 3, 4)  # An input without a recorded output.
    x, actions, policy = g['x4'], g['actions'], g['policy']
    outs = {
      name: factory()(
        x[:-1] if name == 'select_a' else x, actions, policy, None
      )
      for name, factory in input_transforms.TRANSFORMS.items()
      if name != 'normalize'
    }
    g.check(outs, 'out')

    normalize = hk.transform_with_state(
      lambda x: input_transforms.TRANSFORMS['normalize']()(
        x, actions, policy, None
      )
    )
    params, state = normalize.init(None, g['normalize/x1'])
    for i in (1, 2):
      out, state = normalize.apply(params, state, None, g[f'normalize/x{i}'])
      g.check_array(out, f'normalize/out{i}')
