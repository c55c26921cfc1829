// A persistent map from text to values: `putInto` returns a new map and leaves the old one unchanged, sharing all but a few
// small nodes. For state that a fold keeps per id, where copying a whole Map for each entry would be quadratic.
// It is plain data, so a checkpoint stores it directly; equal contents inserted in the same order have equal shape.

import { textHash } from '../text-hash.ts'

/** The empty map is undefined. Each level has sixteen branches, one per four bits of the key's hash. */
export type Trie<V> = Leaf<V> | Branch<V> | undefined

interface Leaf<V> {
  readonly hash: number
  /** More than one entry only if full 32-bit hashes collide. */
  readonly entries: readonly (readonly [key: string, value: V])[]
}

interface Branch<V> {
  readonly children: readonly Trie<V>[]
}

export function getFrom<V>(trie: Trie<V>, key: string): V | undefined {
  const hash = textHash(key)
  let node = trie
  for (let shift = 0; node !== undefined && 'children' in node; shift += 4) node = node.children[(hash >>> shift) & 15]
  if (node === undefined || node.hash !== hash) return undefined
  return node.entries.find(([other]) => other === key)?.[1]
}

/** @example getFrom(putInto(undefined, 'a', 1), 'a') // 1 */
export function putInto<V>(trie: Trie<V>, key: string, value: V): Trie<V> {
  return put(trie, 0, { hash: textHash(key), entries: [[key, value]] })
}

/** In no particular order. */
export function* valuesOf<V>(trie: Trie<V>): Generator<V, undefined> {
  if (trie === undefined) return
  if ('children' in trie) for (const child of trie.children) yield* valuesOf(child)
  else for (const [, value] of trie.entries) yield value
}

function put<V>(node: Trie<V>, shift: number, leaf: Leaf<V>): Trie<V> {
  if (node === undefined) return leaf
  if ('children' in node) {
    const children = node.children.slice()
    const slot = (leaf.hash >>> shift) & 15
    children[slot] = put(children[slot], shift + 4, leaf)
    return { children }
  }
  if (node.hash === leaf.hash) {
    const [entry] = leaf.entries
    const at = node.entries.findIndex(([key]) => key === entry![0])
    return { hash: node.hash, entries: at < 0 ? [...node.entries, entry!] : node.entries.with(at, entry!) }
  }
  const children: Trie<V>[] = new Array(16).fill(undefined)
  children[(node.hash >>> shift) & 15] = node
  return put({ children }, shift, leaf)
}
