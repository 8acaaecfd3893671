// What the page knows of the node. Who shows something is told when it has changed.

/** So many points of usage are kept, as the server keeps them. */
export const KEPT = 300;

const EVENTS = 500;

/** All that is known. */
export const known = {
  link: 'connecting',
  why: '',
  hello: null,
  node: null,
  pods: new Map(),
  /** Usage of the node over time: [{time, node}]. */
  usage: [],
  /** Of each pod: [[time, cpu, memory, rx, tx]]. */
  ofPods: new Map(),
  events: [],
  pulls: [],
};

const listeners = new Set();

/** Calls `listener` with the word for what has changed; gives what ends that. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(what) {
  for (const listener of [...listeners]) listener(what);
}

/** Takes what the server sent. */
export function take(kind, data) {
  TAKERS[kind]?.(data);
  tell(kind);
}

/** The connection is in another state. */
export function linked(link, why = '') {
  known.link = link;
  known.why = why;
  tell('link');
}

const TAKERS = {
  hello(data) {
    known.hello = data;
    linked('live');
  },
  node(data) {
    known.node = data;
  },
  pods(data) {
    known.pods = new Map(data.pods.map((pod) => [pod.id, pod]));
    for (const id of known.ofPods.keys()) {
      if (!known.pods.has(id)) known.ofPods.delete(id);
    }
  },
  history(data) {
    known.usage = [];
    known.ofPods.clear();
    data.points.forEach(point);
  },
  usage: point,
  event(data) {
    known.events.unshift(data);
    known.events.length = Math.min(known.events.length, EVENTS);
  },
  pulls(data) {
    known.pulls = data.pulls;
  },
  gone(data) {
    linked('gone', data.why);
  },
};

function point(usage) {
  push(known.usage, { time: usage.time, node: usage.node ?? {} });
  for (const [id, values] of Object.entries(usage.pods ?? {})) {
    let points = known.ofPods.get(id);
    if (!points) known.ofPods.set(id, (points = []));
    push(points, [usage.time, ...values]);
  }
}

function push(points, value) {
  points.push(value);
  if (points.length > KEPT) points.shift();
}

/** What a pod used last: {cpu, memory, rx, tx}. */
export function latest(id) {
  const last = known.ofPods.get(id)?.at(-1);
  return last ? { cpu: last[1], memory: last[2], rx: last[3], tx: last[4] } : {};
}

/** Whether the endpoint can tell a thing; why not is in `missing`. */
export function can(what) {
  return known.hello?.can?.[what] === true;
}

/** Why the endpoint cannot tell a thing. */
export function missing(what) {
  const found = (known.hello?.missing ?? []).find((entry) => entry.what === what);
  return found?.why ?? 'this endpoint does not report it';
}
