// Circles of files: files that import each other, directly or through other files. Types count as well.

import { posix } from 'node:path'
import { findImports, type Source } from './architecture.ts'
import { tokenize } from './tokens.ts'

/** Each circle as its files in order of their names (Tarjan's strongly connected components). */
export function findCircles(sources: readonly Source[]): string[][] {
  const known = new Map(sources.map(({ path, text }) => [path, importsOf(path, text)]))
  const order = new Map<string, number>()
  const stack: string[] = []
  const circles: string[][] = []
  const visit = (path: string): number => {
    let low = order.size
    order.set(path, low)
    stack.push(path)
    const own = low
    for (const next of known.get(path) ?? []) {
      if (!known.has(next)) continue
      if (!order.has(next)) low = Math.min(low, visit(next))
      else if (stack.includes(next)) low = Math.min(low, order.get(next)!)
    }
    if (low === own) {
      const circle = stack.splice(stack.indexOf(path))
      if (circle.length > 1) circles.push(circle.sort())
    }
    return low
  }
  for (const path of known.keys()) if (!order.has(path)) visit(path)
  return circles
}

function importsOf(path: string, text: string): string[] {
  return findImports(tokenize(text))
    .map(({ from }) => from)
    .filter((from) => from?.startsWith('.'))
    .map((from) => posix.normalize(posix.join(posix.dirname(path), from!)))
}
