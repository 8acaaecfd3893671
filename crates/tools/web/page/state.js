// In which state a pod and its containers are, in words and a kind that has a colour.

/** The latest attempt of each of a pod's containers, in the order of their names. */
export function current(pod) {
  const latest = new Map();
  for (const container of pod.containers) {
    const other = latest.get(container.name);
    if (!other || other.attempt < container.attempt || (other.attempt === container.attempt && other.created < container.created)) {
      latest.set(container.name, container);
    }
  }
  return [...latest.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** How often the containers of a pod were started anew. */
export function restarts(pod) {
  return current(pod).reduce((sum, container) => sum + (container.attempt || 0), 0);
}

/** A container's state: {kind, words}. */
export function ofContainer(container) {
  switch (container.state) {
    case 'running':
      return { kind: 'good', words: 'running' };
    case 'created':
      return { kind: 'soon', words: 'created' };
    case 'exited': {
      const reason = container.reason || 'exited';
      if (container.exit_code === 0) return { kind: 'done', words: reason };
      const code = container.exit_code == null ? '' : ` (${container.exit_code})`;
      return { kind: 'bad', words: `${reason}${code}` };
    }
    default:
      return { kind: 'bad', words: 'unknown' };
  }
}

/** A pod's state, from its sandbox and its containers. */
export function ofPod(pod) {
  if (pod.state !== 'ready') return { kind: 'done', words: 'stopped' };
  const containers = current(pod);
  if (containers.length === 0) return { kind: 'soon', words: 'empty' };
  const failed = containers.find((container) => ofContainer(container).kind === 'bad');
  if (failed) return { kind: 'bad', words: 'failing' };
  if (containers.some((container) => container.state === 'created')) return { kind: 'soon', words: 'starting' };
  if (containers.every((container) => container.state === 'exited')) return { kind: 'done', words: 'completed' };
  return { kind: 'good', words: 'running' };
}

/** Who made a pod, as far as its labels tell. */
export function owner(pod) {
  if (pod.owner) return pod.owner.kind ? `${pod.owner.kind} ${pod.owner.name}` : pod.owner.name;
  const labels = pod.labels ?? {};
  if (labels['job-name']) return `Job ${labels['job-name']}`;
  if (labels['statefulset.kubernetes.io/pod-name']) return `StatefulSet ${pod.name.replace(/-\d+$/, '')}`;
  const template = labels['pod-template-hash'];
  if (template && pod.name.includes(`-${template}-`)) {
    return `Deployment ${pod.name.slice(0, pod.name.lastIndexOf(`-${template}-`))}`;
  }
  if (labels['controller-revision-hash']) return `DaemonSet ${pod.name.replace(/-[^-]+$/, '')}`;
  return 'none';
}
