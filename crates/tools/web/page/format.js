// Numbers and times as people read them.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** An amount of memory or disk. */
export function bytes(amount) {
  if (amount == null) return '–';
  let value = amount;
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : digits(value)} ${UNITS[unit]}`;
}

/** So many bytes in a second. */
export function rate(amount) {
  return amount == null ? '–' : `${bytes(amount)}/s`;
}

/** Processor time, in cores. */
export function cores(amount) {
  if (amount == null) return '–';
  if (amount < 0.0005) return '0';
  return amount < 1 ? `${Math.round(amount * 1000)}m` : digits(amount);
}

function digits(value) {
  if (value >= 100) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** How long something takes. */
export function duration(milliseconds) {
  if (milliseconds == null) return '–';
  const ms = Math.max(0, milliseconds);
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How long ago something was, shortly. */
export function age(time, now = Date.now()) {
  if (!time) return '–';
  const seconds = Math.max(0, Math.floor((now - time) / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

const two = (number) => String(number).padStart(2, '0');

/** The time of day, where the browser is. */
export function clock(time) {
  if (!time) return '–';
  const at = new Date(time);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The time of day with its thousandths. */
export function exactClock(time) {
  return `${clock(time)}.${String(Math.floor(time) % 1000).padStart(3, '0')}`;
}

/** A day and its time. */
export function moment(time) {
  if (!time) return '–';
  const at = new Date(time);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(time)}`;
}

/** The beginning of an id, as people say it. */
export function short(id) {
  return (id ?? '').replace(/^sha256:/, '').slice(0, 12);
}

/** A number of things, with the word for them. */
export function count(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}
