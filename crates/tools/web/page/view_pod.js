// One pod.

import { arrange, attribute, badge, card, facts, fill, h, onFrame, table } from './dom.js';
import { age, bytes, cores, duration, moment, rate, short } from './format.js';
import { lanes } from './lanes.js';
import { again, ask } from './live.js';
import { Plot } from './plot.js';
import { current, ofContainer, ofPod, owner } from './state.js';
import { can, known, missing } from './store.js';
import { event } from './view_node.js';
import { waterfall } from './waterfall.js';

export const title = 'Pod';

export function open(root, { id }) {
  const leaving = new AbortController();
  const points = () => (known.ofPods.get(id) ?? []).map(([time, cpu, memory, rx, tx]) => ({ time, cpu, memory, rx, tx }));
  const limits = { cpu: null, memory: null };
  const plots = [
    new Plot({ title: 'CPU', series: [{ name: 'cores', ink: 'cpu', of: (point) => point.cpu }], points, show: cores, limit: () => limits.cpu }),
    new Plot({ title: 'Memory', series: [{ name: 'used', ink: 'memory', of: (point) => point.memory }], points, show: bytes, limit: () => limits.memory }),
    new Plot({
      title: 'Network',
      series: [
        { name: 'received', ink: 'rx', of: (point) => point.rx },
        { name: 'sent', ink: 'tx', of: (point) => point.tx },
      ],
      points,
      show: rate,
    }),
  ];
  const heading = h('h1', null, 'Pod');
  const summary = h('div', { css: 'summary' });
  const logs = h('a', { css: 'button', href: '/logs' }, 'Logs');
  const life = h('div');
  const start = h('div');
  const details = h('div', { css: 'details' });
  const events = h('ol', { css: 'events' });
  root.append(h('p', null, h('a', { href: '/pods' }, 'All pods')), heading, summary, h('p', null, logs),
    h('div', { css: 'plots' }, plots.map((plot) => plot.element)),
    card('Timeline', life), card('Startup', start), details, card('Events', events));

  const tell = onFrame(() => {
    const pod = known.pods.get(id);
    if (!pod) {
      if (known.link === 'live' && known.pods.size > 0) fill(summary, h('p', { css: 'notice' }, 'This pod is no longer on the node.'));
      return;
    }
    const { kind, words } = ofPod(pod);
    fill(heading, pod.name);
    document.title = `${pod.name} – ${known.hello?.host ?? 'orlop'}`;
    fill(summary, facts([
      ['State', badge(kind, words)],
      ['Namespace', pod.namespace],
      ['Owner', owner(pod) === 'none' ? null : owner(pod)],
      ['Handler', pod.handler || 'default'],
      ['Address', pod.host_network ? 'host network' : (pod.ips ?? []).join(', ')],
      ['Age', `${age(pod.created)}, since ${moment(pod.created)}`],
      ['ID', short(pod.id)],
    ]));
    attribute(logs, 'href', logsOf(current(pod)));
    fill(life, pod.containers.length ? lanes(pod) : h('p', { css: 'dim' }, 'No containers yet.'));
    const happened = known.events.filter((entry) => entry.pod === id).slice(0, 40);
    arrange(events, happened.length ? happened.map(event) : [h('li', { css: 'dim' }, can('events') ? 'No events since this page was opened.' : missing('events'))]);
  });

  const fetched = (what, where, then) => ask(what, leaving.signal).then(then).catch((error) => {
    if (!leaving.signal.aborted) fill(where, h('p', { css: 'notice' }, error.message));
  });
  let told = '';
  const look = again(() => fetched(`/api/pod/${encodeURIComponent(id)}`, details, (answer) => {
    // What somebody has opened or asked for is not drawn over for nothing.
    const now = JSON.stringify(answer);
    if (now === told && !details.querySelector('.notice')) return;
    told = now;
    limits.cpu = sum(answer.containers, ({ resources }) => (resources?.cpu_quota > 0 && resources.cpu_period ? resources.cpu_quota / resources.cpu_period : null));
    limits.memory = sum(answer.containers, ({ resources }) => resources?.memory_limit || null);
    const unfolded = new Set([...details.querySelectorAll('details[open]')].map((element) => element.dataset.name));
    fill(details, answer.containers.map((container) => containerCard(id, container, unfolded)), placeCard(answer, unfolded));
    plots.forEach((plot) => plot.draw());
  }), 1000);
  const trace = again(() => {
    if (known.hello && !can('traces')) return fill(start, h('p', { css: 'dim' }, missing('traces')));
    return fetched(`/api/traces?pod=${encodeURIComponent(id)}&limit=1`, start, ({ traces }) =>
      fill(start, traces.length ? waterfall(traces[0]) : h('p', { css: 'dim' }, 'No startup trace of this pod is available.')));
  }, 1000);
  let state = '';
  const changed = () => {
    const now = JSON.stringify(known.pods.get(id)?.containers.map((container) => [container.id, container.state]));
    if (now === state) return;
    state = now;
    look();
    trace();
  };
  tell();
  if (known.hello) changed();
  const ticking = setInterval(tell, 10_000);
  return {
    on(what) {
      if (what === 'pods') changed();
      if (what === 'pods' || what === 'event' || what === 'hello' || what === 'link') tell();
      if (what === 'usage' || what === 'history' || what === 'theme') plots.forEach((plot) => plot.draw());
    },
    stop() {
      clearInterval(ticking);
      leaving.abort();
      plots.forEach((plot) => plot.stop());
    },
  };
}

/** A sum that is known only where each part is: one container without a limit has none for the pod. */
function sum(containers, of) {
  const running = containers.filter(({ state }) => state === 'running');
  const parts = running.map(of);
  return parts.length && parts.every((part) => part != null) ? parts.reduce((a, b) => a + b, 0) : null;
}

/** The address of the logs of containers. */
function logsOf(containers) {
  return `/logs?${containers.map((container) => `container=${encodeURIComponent(container.id)}`).join('&')}`;
}

function containerCard(pod, container, unfolded) {
  const { kind, words } = ofContainer(container);
  const limits = container.resources ?? {};
  const quota = limits.cpu_quota > 0 && limits.cpu_period ? cores(limits.cpu_quota / limits.cpu_period) : null;
  const folded = (name, words, inside) => h('details', { 'data-name': `${container.id} ${name}`, open: unfolded.has(`${container.id} ${name}`) }, h('summary', null, words), inside);
  return card(`Container ${container.name}`,
    facts([
      ['State', badge(kind, words)],
      ['Message', container.message],
      ['Image', container.image],
      ['Attempt', container.attempt ? String(container.attempt) : null],
      ['Started', container.started ? moment(container.started) : null],
      ['Ended', container.finished ? `${moment(container.finished)}, after ${duration(container.finished - container.started)}` : null],
      ['Process', container.pid],
      ['User', container.user],
      ['Stop signal', container.stop_signal],
      ['CPU limit', quota && `${quota} cores`],
      ['CPU shares', limits.cpu_shares || null],
      ['Memory limit', limits.memory_limit ? bytes(limits.memory_limit) : null],
      ['CPU set', limits.cpuset],
      ['Command', container.command && h('code', null, container.command.join(' '))],
      ['Log', container.log_path && h('a', { href: logsOf([container]) }, container.log_path)],
    ]),
    container.mounts?.length > 0 && folded('mounts', `Mounts (${container.mounts.length})`,
      table(`mounts of ${container.name}`, ['Path in the container', 'Source', 'Options'],
        container.mounts.map((mount) => [mount.container, mount.host || mount.image || '–', [mount.readonly ? 'read-only' : 'writable', mount.propagation].filter(Boolean).join(', ')]))),
    environment(pod, container, folded));
}

/** Names at first; the values only where the server shows them and somebody asks. */
function environment(pod, container, folded) {
  const names = container.environment;
  if (!names) return null;
  const list = h('ul', { css: 'plain-list' }, names.map((name) => h('li', null, h('code', null, name))));
  const show = can('environment')
    ? h('button', {
        type: 'button',
        on: {
          click: async (press) => {
            press.target.disabled = true;
            try {
              const { variables } = await ask(`/api/pod/${encodeURIComponent(pod)}/environment?container=${encodeURIComponent(container.id)}`);
              fill(list, variables.map(({ name, value }) => h('li', null, h('code', null, `${name}=${value}`))));
              press.target.remove();
            } catch (error) {
              press.target.after(h('p', { css: 'notice' }, error.message));
            }
          },
        },
      }, 'Show the values')
    : h('p', { css: 'dim' }, 'Values are hidden: the server was started without the option to show them.');
  return folded('environment', `Environment (${names.length})`, [show, list]);
}

function placeCard(answer, unfolded) {
  const folded = (name, words, inside) => h('details', { 'data-name': name, open: unfolded.has(name) }, h('summary', null, words), inside);
  const pairs = (values) => Object.entries(values ?? {}).sort().map(([name, value]) => h('li', null, h('code', null, `${name}=${value}`)));
  const { pod } = answer;
  return card('Sandbox',
    facts([
      ['Cgroup', answer.cgroup],
      ['Network namespace', answer.netns],
      ['Logs', answer.log_directory],
      ['Ports', (answer.ports ?? []).map((port) => `${port.host_ip || '*'}:${port.host_port} → ${port.container_port}/${port.protocol}`).join(', ')],
      ['Name servers', (answer.dns?.servers ?? []).join(', ')],
      ['Search domains', (answer.dns?.searches ?? []).join(', ')],
      ['UID', pod?.uid],
    ]),
    folded('labels', `Labels (${Object.keys(pod?.labels ?? {}).length})`, h('ul', { css: 'plain-list' }, pairs(pod?.labels))),
    folded('annotations', `Annotations (${Object.keys(answer.annotations ?? {}).length})`, h('ul', { css: 'plain-list' }, pairs(answer.annotations))));
}
