// One digest of many files, computed per folder: an unchanged folder keeps its digest, so a tree of 20,000 files costs a few
// hundred digests. Each name and digest is terminated by a NUL, which neither can contain: two different sets of files never
// produce the same bytes.
//
//   folder: (name NUL digest NUL)*, ordered by name
//   tree:   (folder NUL digest of the folder NUL | path NUL NUL)*, ordered by path; the second form: missing

import { createHash } from 'node:crypto'

/** Digest of a text. */
export function digestOfText(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** `names` are sorted; `digests` are in the same order. */
export function folderDigest(names: readonly string[], digests: readonly string[]): string {
  let text = ''
  for (let i = 0; i < names.length; i++) text += `${names[i]}\0${digests[i]}\0`
  return digestOfText(text)
}

/** Digests by folder, and '' for a missing path. */
export function treeDigest(digests: ReadonlyMap<string, string>): string {
  let text = ''
  for (const path of [...digests.keys()].sort()) text += `${path}\0${digests.get(path)}\0`
  return digestOfText(text)
}
