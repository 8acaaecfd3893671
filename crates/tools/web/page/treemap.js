// Areas as large as what they stand for, as near to squares as can be.

/** Lays `entries` ([{size}], the largest first) into a rectangle: [{entry, x, y, width, height}]. */
export function squares(entries, x, y, width, height) {
  const laid = [];
  const total = entries.reduce((sum, entry) => sum + entry.size, 0);
  if (total <= 0) return laid;
  const scale = (width * height) / total;
  let rest = entries.filter((entry) => entry.size > 0);
  while (rest.length > 0 && width > 0 && height > 0) {
    const side = Math.min(width, height);
    let row = 1;
    while (row < rest.length && worst(rest, row + 1, side, scale) <= worst(rest, row, side, scale)) row += 1;
    const area = sum(rest, row) * scale;
    const depth = area / side;
    let offset = 0;
    for (const entry of rest.slice(0, row)) {
      const length = (entry.size * scale) / depth;
      laid.push(width >= height
        ? { entry, x, y: y + offset, width: depth, height: length }
        : { entry, x: x + offset, y, width: length, height: depth });
      offset += length;
    }
    if (width >= height) {
      x += depth;
      width -= depth;
    } else {
      y += depth;
      height -= depth;
    }
    rest = rest.slice(row);
  }
  return laid;
}

function sum(entries, row) {
  let all = 0;
  for (let n = 0; n < row; n += 1) all += entries[n].size;
  return all;
}

/** How far from a square the worst of a row is. */
function worst(entries, row, side, scale) {
  const area = sum(entries, row) * scale;
  const depth = area / side;
  const of = (entry) => {
    const length = (entry.size * scale) / depth;
    return Math.max(length / depth, depth / length);
  };
  return Math.max(of(entries[0]), of(entries[row - 1]));
}
