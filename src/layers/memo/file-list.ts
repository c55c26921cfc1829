// One digest of many files, by way of their folders: while a folder is what it was, its digest is too, and a tree of 20,000 files
// costs some hundred digests. Names and digests go in with a NUL behind each, which neither can hold: two different sets of files
// are never the same bytes.
//
//   folder: (name NUL digest NUL)*, in the order of names
//   tree:   (folder NUL digest of the folder NUL | path NUL NUL)*, in the order of paths; the second form: nothing is there

import { createHash } from 'node:crypto'

/** Of texts, one behind the other. */
export function digestOfText(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** `digests` are those of `names`, which are in order. */
export function folderDigest(names: readonly string[], digests: readonly string[]): string {
  let text = ''
  for (let i = 0; i < names.length; i++) text += `${names[i]}\0${digests[i]}\0`
  return digestOfText(text)
}

/** By folder, and '' for what is not there. */
export function treeDigest(digests: ReadonlyMap<string, string>): string {
  let text = ''
  for (const path of [...digests.keys()].sort()) text += `${path}\0${digests.get(path)}\0`
  return digestOfText(text)
}
