// Networks: what pods get their addresses from, and who has which.

import { badge, card, facts, fill, h, table } from './dom.js';
import { again, ask } from './live.js';
import { can, known, missing } from './store.js';
import { tree } from './tree.js';

export const title = 'Networks';

export function open(root) {
  const leaving = new AbortController();
  const body = h('div', null, h('p', { css: 'dim' }, 'Loading.'));
  root.append(h('h1', null, 'Networks'), body);
  let drawn = '';
  const draw = (key, ...parts) => {
    // What is as it was keeps its focus.
    if (key === drawn) return;
    drawn = key;
    fill(body, parts.map((part) => part()));
  };
  const look = again(async () => {
    // What the endpoint can is known with its first words.
    if (!known.hello) return;
    const pods = [...known.pods.values()].map((pod) => [pod.id, pod.name, pod.ips]);
    if (!can('networks')) {
      draw(JSON.stringify(pods), () => h('p', { css: 'dim' }, missing('networks')), ownAddresses);
      return;
    }
    try {
      const answer = await ask('/api/networks', leaving.signal);
      const networks = () => (answer.networks.length ? answer.networks.map(network) : h('p', { css: 'dim' }, 'No network is configured.'));
      draw(JSON.stringify([answer, pods]), () => state(answer), networks);
    } catch (error) {
      if (!leaving.signal.aborted) draw(error.message, () => h('p', { css: 'notice' }, error.message), ownAddresses);
    }
  }, 2000);
  look();
  return {
    on(what) {
      if (what === 'pods' || what === 'hello') look();
    },
    stop() {
      leaving.abort();
    },
  };
}

function podLink(id) {
  const pod = known.pods.get(id);
  return pod ? h('a', { href: `/pod/${encodeURIComponent(id)}` }, `${pod.namespace}/${pod.name}`) : id || '–';
}

/** Whether pods get a network at all, and what is wrong with its files. */
function state({ ready, reason, message, warnings, conf_dir: directory }) {
  return card('State',
    h('p', null, badge(ready ? 'good' : 'bad', ready ? 'ready' : 'not ready'), ` ${[reason, message].filter(Boolean).join(': ')}`),
    facts([['Configuration directory', directory]]),
    warnings?.length > 0 && h('ul', { css: 'findings' }, warnings.map((warning) => h('li', null, badge('soon', 'warning'), ` ${warning}`))));
}

function network({ name, given, ...rest }) {
  const simple = Object.entries(rest).filter(([, value]) => value === null || typeof value !== 'object');
  const lists = Object.entries(rest).filter(([, value]) => Array.isArray(value) && value.every((entry) => typeof entry !== 'object'));
  const deep = Object.entries(rest).filter(([, value]) => value && typeof value === 'object' && !(Array.isArray(value) && value.every((entry) => typeof entry !== 'object')));
  return card(name,
    facts([...simple.map(([key, value]) => [title_of(key), typeof value === 'boolean' ? (value ? 'yes' : 'no') : value]), ...lists.map(([key, value]) => [title_of(key), value.join(', ')])]),
    deep.map(([key, value]) => tree(value, title_of(key), 1)),
    given?.length > 0 && table(`addresses of ${name}`, ['Address', 'Pod', 'Interface'], given.map((entry) => [entry.ip ?? '–', podLink(entry.pod), entry.interface ?? '–'])));
}

function title_of(key) {
  const words = key.replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What the list of pods tells, where the endpoint tells nothing of networks. */
function ownAddresses() {
  const rows = [...known.pods.values()].filter((pod) => !pod.host_network && pod.ips?.length).map((pod) => [pod.ips.join(', '), podLink(pod.id)]);
  return card('Pod addresses', rows.length ? table('addresses of pods', ['Address', 'Pod'], rows) : h('p', { css: 'dim' }, 'No pod has an address.'));
}
