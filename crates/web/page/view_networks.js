// Networks: what pods get their addresses from, and who has which.

import { card, facts, fill, h, table } from './dom.js';
import { ask } from './live.js';
import { can, known, missing } from './store.js';
import { tree } from './tree.js';

export const title = 'Networks';

export function open(root) {
  const leaving = new AbortController();
  const body = h('div', null, h('p', { css: 'dim' }, 'Asking.'));
  root.append(h('h1', null, 'Networks'), body);
  const look = () => {
    if (known.hello && !can('networks')) return fill(body, h('p', { css: 'dim' }, missing('networks')), ownAddresses());
    return ask('/api/networks', leaving.signal)
      .then(({ networks }) => fill(body, networks.length ? networks.map(network) : h('p', { css: 'dim' }, 'No network is configured.')))
      .catch((error) => leaving.signal.aborted || fill(body, h('p', { css: 'notice' }, error.message), ownAddresses()));
  };
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

function podLink(id, words) {
  const pod = known.pods.get(id);
  return pod ? h('a', { href: `/pod/${encodeURIComponent(id)}` }, `${pod.namespace}/${pod.name}`) : words || id || '–';
}

function network({ name, addresses, ...rest }) {
  const simple = Object.entries(rest).filter(([, value]) => value === null || typeof value !== 'object');
  const lists = Object.entries(rest).filter(([, value]) => Array.isArray(value) && value.every((entry) => typeof entry !== 'object'));
  const deep = Object.entries(rest).filter(([, value]) => value && typeof value === 'object' && !(Array.isArray(value) && value.every((entry) => typeof entry !== 'object')));
  return card(name,
    facts([...simple.map(([key, value]) => [title_of(key), value === true ? 'yes' : value]), ...lists.map(([key, value]) => [title_of(key), value.join(', ')])]),
    deep.map(([key, value]) => tree(value, title_of(key), 1)),
    addresses?.length > 0 && table(`addresses of ${name}`, ['Address', 'Pod', 'Interface'], addresses.map((entry) => [entry.ip, podLink(entry.pod, entry.pod_name), entry.interface ?? '–'])));
}

function title_of(key) {
  const words = key.replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What the list of pods tells, where the endpoint tells nothing of networks. */
function ownAddresses() {
  const rows = [...known.pods.values()].filter((pod) => !pod.host_network && pod.ips?.length).map((pod) => [pod.ips.join(', '), podLink(pod.id)]);
  return card('Addresses of pods', rows.length ? table('addresses of pods', ['Address', 'Pod'], rows) : h('p', { css: 'dim' }, 'None.'));
}
