// Manifests of `orlop up` and `orlop node`: their mistakes, and what probes answered last.

import { badge, card, fill, h, table } from './dom.js';
import { age } from './format.js';
import { ask } from './live.js';
import { known } from './store.js';

export const title = 'Manifests';

const EVERY = 3000;

export function open(root) {
  const leaving = new AbortController();
  const body = h('div', null, h('p', { css: 'dim' }, 'Loading.'));
  root.append(h('h1', null, 'Manifests'), body);
  let drawn = '';
  const look = () => ask('/api/manifests', leaving.signal).then(({ manifests }) => {
    const now = JSON.stringify(manifests);
    if (now === drawn) return;
    drawn = now;
    fill(body, manifests.length ? manifests.map(manifest) : h('p', { css: 'dim' }, 'No manifests.'));
  }).catch((error) => {
    if (leaving.signal.aborted) return;
    drawn = '';
    fill(body, h('p', { css: 'notice' }, error.message));
  });
  look();
  const ticking = setInterval(look, EVERY);
  return {
    on() {},
    stop() {
      clearInterval(ticking);
      leaving.abort();
    },
  };
}

function manifest({ file, pod, namespace, ok, problems, pod_id: id, probes }) {
  const name = pod ? `${namespace || 'default'}/${pod}` : 'no pod';
  return card(file || name,
    h('p', null, badge(ok ? 'good' : 'bad', ok ? 'valid' : 'invalid'), ' ', id && known.pods.has(id) ? h('a', { href: `/pod/${encodeURIComponent(id)}` }, name) : name),
    problems?.length > 0 && h('ul', { css: 'findings' }, problems.map(({ line, text, weight }) =>
      h('li', null, weight && badge(weight === 'error' ? 'bad' : 'soon', weight), line ? h('strong', null, ` line ${line}: `) : ' ', text))),
    probes?.length > 0 && table(`probes of ${name}`, ['Container', 'Probe', 'Last result', ['When', 'number'], ['Failures', 'number']],
      probes.map((probe) => [probe.container, probe.kind, [badge(probe.ok == null ? 'soon' : probe.ok ? 'good' : 'bad', probe.ok == null ? 'not yet' : probe.ok ? 'ok' : 'failed'), ` ${probe.last?.answer ?? ''}`], probe.last?.time ? `${age(probe.last.time)} ago` : '–', probe.failures ?? 0])));
}
