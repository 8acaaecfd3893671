// Where the start of a pod went: its calls and their steps as bars under each other.

import { h } from './dom.js';
import { duration } from './format.js';

/** A trace: {calls: [{name, container, start_us, took_us, failed, running, steps}]}. */
export function waterfall(trace) {
  const end = Math.max(1, ...trace.calls.map((call) => call.start_us + call.took_us));
  const rows = trace.calls.flatMap((call) => [
    row(`${call.name}${call.container ? ` ${call.container}` : ''}`, call, end, 'call'),
    ...call.steps.map((step) => row(step.name, step, end, 'step')),
  ]);
  const waited = `clients waited ${duration(trace.waited_us / 1000)}`;
  const left = trace.left_out ? `, ${trace.left_out} more are not shown` : '';
  return h('figure', { css: 'waterfall' },
    h('figcaption', null, `${waited}, ${duration(end / 1000)} from the first call to the end of the last${left}`),
    h('ol', null, rows));
}

function row(name, span, end, css) {
  const took = span.running ? 'still running' : duration(span.took_us / 1000);
  const kind = span.failed ? 'failed' : span.running ? 'running' : '';
  return h('li', { css },
    h('span', { css: 'name' }, name),
    h('span', { css: 'track' },
      h('span', {
        css: `bar-of-time ${kind}`,
        style: {
          left: `${(span.start_us / end) * 100}%`,
          width: `${Math.max(0.3, ((span.running ? end - span.start_us : span.took_us) / end) * 100)}%`,
        },
      })),
    h('span', { css: 'took' }, took, span.failed && ' failed'));
}
