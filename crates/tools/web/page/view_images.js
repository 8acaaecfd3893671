// Images: what they take of the disk, who uses them, what is being pulled.

import { badge, card, fill, h, s, table } from './dom.js';
import { bytes, count, duration, rate, short } from './format.js';
import { again, ask } from './live.js';
import { can, known, missing } from './store.js';
import { squares } from './treemap.js';

export const title = 'Images';

/** Such a look costs the node a question for each image. */
const SOONEST = 5000;

export function open(root) {
  const leaving = new AbortController();
  const pulls = h('div');
  const disk = h('div');
  const picture = h('div');
  const list = h('div');
  root.append(h('h1', null, 'Images'), card('Pulls in progress', pulls), card('Disk', disk), card('Layers', picture), card('All images', list));

  const look = again(() => ask('/api/images', leaving.signal).then((answer) => {
    fill(disk, disks(answer));
    fill(picture, layers(answer.images));
    fill(list, images(answer));
  }).catch((error) => leaving.signal.aborted || fill(list, h('p', { css: 'notice' }, error.message))), SOONEST);

  let running = 0;
  const tellPulls = () => {
    if (known.hello && !can('pulls')) return fill(pulls, h('p', { css: 'dim' }, missing('pulls')));
    fill(pulls, known.pulls.length ? known.pulls.map(pull) : h('p', { css: 'dim' }, 'No pulls in progress.'));
    if (known.pulls.length < running) look();
    running = known.pulls.length;
  };
  tellPulls();
  look();
  return {
    on(what) {
      if (what === 'pulls' || what === 'hello') tellPulls();
      if (what === 'pods') look();
    },
    stop() {
      leaving.abort();
    },
  };
}

function pull({ image, started, done, total, rate: speed, waiting }) {
  const left = speed > 0 && total > done ? `, ${duration(((total - done) / speed) * 1000)} left` : '';
  const words = waiting ? 'waiting' : `${bytes(done)}${total ? ` of ${bytes(total)}` : ''}, ${rate(speed)}${left}`;
  const bar = h('progress', { max: total || null, value: total ? done : null, 'aria-label': `pull of ${image}` });
  return h('div', { css: 'pull' }, h('strong', null, image), bar, h('span', { css: 'dim' }, `${words}${started ? `, for ${duration(Date.now() - started)}` : ''}`));
}

function disks({ filesystems, images, garbage }) {
  const own = images.reduce((sum, image) => sum + (image.size ?? 0), 0);
  return [
    ...filesystems.map(({ mountpoint, used, inodes, capacity }) => {
      const bar = capacity ? h('meter', { min: 0, max: capacity, value: used, 'aria-label': `usage of ${mountpoint}` }) : null;
      return h('p', null, h('code', null, mountpoint), ' ', bar, ` ${bytes(used)}${capacity ? ` of ${bytes(capacity)}` : ''}, ${count(inodes ?? 0, 'file')}`);
    }),
    h('p', null, `${count(images.length, 'image')}, ${bytes(own)} if images shared no layers.`),
    garbage
      ? h('p', null, `Garbage collection would free ${bytes(garbage.bytes)}: ${count(garbage.images.length, 'image')} that no container uses.`)
      : h('p', { css: 'dim' }, 'This endpoint does not report unused images.'),
  ];
}

const WIDTH = 1000;
const HEIGHT = 360;
const SHOWN = 400;

/** Each layer once, as large as it is, whatever number of images shares it. */
function layers(images) {
  const known = new Map();
  for (const image of images) {
    for (const layer of image.layers ?? []) {
      const entry = known.get(layer.digest) ?? { digest: layer.digest, size: layer.size ?? 0, images: [] };
      if (!entry.images.includes(image)) entry.images.push(image);
      known.set(layer.digest, entry);
    }
  }
  const all = [...known.values()].sort((a, b) => b.size - a.size);
  if (all.every(({ size }) => size === 0)) return h('p', { css: 'dim' }, 'This endpoint does not report layers.');
  const shared = all.filter((layer) => layer.images.length > 1);
  const sum = (entries) => entries.reduce((total, { size }) => total + size, 0);
  const saved = shared.reduce((total, layer) => total + layer.size * (layer.images.length - 1), 0);
  const said = h('p', { css: 'dim', role: 'status' }, `${count(all.length, 'layer')}, ${bytes(sum(all))}; ${count(shared.length, 'layer')} shared, which saves ${bytes(saved)}.`);
  const usual = said.textContent;
  const boxes = squares(all.slice(0, SHOWN), 0, 0, WIDTH, HEIGHT).map(({ entry, x, y, width, height }) => {
    const names = entry.images.map(nameOf);
    const words = `${short(entry.digest)}, ${bytes(entry.size)}, in ${names.join(', ')}`;
    const box = s('g', { css: entry.images.length > 1 ? 'layer shared' : 'layer', tabindex: '0', role: 'listitem', 'aria-label': words },
      s('rect', { x: x + 1, y: y + 1, width: Math.max(0, width - 2), height: Math.max(0, height - 2), rx: 2 }, s('title', null, words)),
      width > 90 && height > 34 && s('text', { x: x + 6, y: y + 16 }, fitted(names[0], width)),
      width > 90 && height > 34 && s('text', { x: x + 6, y: y + 30, css: 'small' }, `${bytes(entry.size)}${names.length > 1 && width > 130 ? `, ${names.length} images` : ''}`));
    const say = () => (said.textContent = words);
    box.addEventListener('pointerenter', say);
    box.addEventListener('focus', say);
    box.addEventListener('pointerleave', () => (said.textContent = usual));
    return box;
  });
  const svg = s('svg', { css: 'treemap', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'list', 'aria-label': 'layers by size' }, boxes);
  const legend = h('ul', { css: 'legend' }, h('li', { css: 'ink-memory' }, 'used by one image'), h('li', { css: 'ink-cpu' }, 'shared'));
  return [said, svg, legend];
}

function fitted(name, width) {
  const room = Math.floor(width / 7) - 2;
  return name.length > room ? `…${name.slice(1 - room)}` : name;
}

function nameOf(image) {
  return image.tags?.[0] ?? image.digests?.[0] ?? short(image.id);
}

function images({ images, garbage }) {
  const users = new Map();
  for (const image of images) {
    for (const layer of image.layers ?? []) users.set(layer.digest, (users.get(layer.digest) ?? 0) + 1);
  }
  const own = (image) => image.layers && image.layers.filter((layer) => users.get(layer.digest) === 1).reduce((sum, layer) => sum + (layer.size ?? 0), 0);
  const rows = [...images].sort((a, b) => (b.size ?? 0) - (a.size ?? 0)).map((image) => [
    h('div', null, (image.tags?.length ? image.tags : [nameOf(image)]).map((tag) => h('div', null, tag)), h('div', { css: 'dim' }, short(image.id))),
    bytes(image.size),
    own(image) == null ? '–' : bytes(own(image)),
    usedBy(image, garbage),
  ]);
  return rows.length ? table('images', ['Image', ['Size', 'number'], ['Unique size', 'number roomy'], 'Used by'], rows) : h('p', { css: 'dim' }, 'No images.');
}

function usedBy(image, garbage) {
  const pods = (image.used_by ?? []).map((id) => known.pods.get(id)).filter(Boolean);
  return [
    image.pinned && badge('good', 'pinned'),
    garbage?.images.includes(image.id) && badge('soon', 'unused'),
    h('ul', { css: 'plain-list' }, pods.slice(0, 6).map((pod) => h('li', null, h('a', { href: `/pod/${encodeURIComponent(pod.id)}` }, `${pod.namespace}/${pod.name}`))),
      pods.length > 6 && h('li', { css: 'dim' }, `${pods.length - 6} more`)),
  ];
}
