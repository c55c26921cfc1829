// Programs on the PATH as parts of a key: the file behind the name, with links followed, and the manifest of its package.
// Both change with the version of a tool. The tool itself is not run.

import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

const manifests = ['package.json', 'pyproject.toml', 'Cargo.toml', 'go.mod']

/** The file of a program on the PATH; null if there is none. */
export function findTool(name: string): string | null {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder || '.', name)
    try {
      accessSync(path, constants.X_OK)
      if (statSync(path).isFile()) return realpathSync(path)
    } catch {
      // This folder has no such program: the next one is searched.
    }
  }
  return null
}

/** Undefined if there is no such program. */
export function toolDigest(name: string): string | undefined {
  const path = findTool(name)
  if (path === null) return undefined
  const hash = createHash('sha256').update(readFileSync(path))
  const folder = packageFolder(path)
  for (const manifest of folder === null ? [] : manifests) {
    const file = join(folder!, manifest)
    if (existsSync(file)) hash.update(manifest).update(readFileSync(file))
  }
  return hash.digest('hex')
}

/** The folder of the package that a file belongs to: the nearest one with a manifest. */
export function packageFolder(path: string): string | null {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (manifests.some((name) => existsSync(join(folder, name)))) return folder
    if (dirname(folder) === folder) return null
  }
}
