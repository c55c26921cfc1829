// Tests name the sources and run the build: Node loads compiled files many times faster than a transforming test runner does,
// and they are the shipped files. A build is used only if it is as new as every source; otherwise the sources are, so that no
// outdated code is tested.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Plugin } from 'vitest/config'

export function builtSources(root: string): Plugin {
  const source = join(root, 'src/')
  const build = join(root, 'dist/')
  const isUsed = isFresh(source, build)
  if (!isUsed) console.log('dist is older than src: the tests run the sources, which takes longer')
  return {
    name: 'built-sources',
    enforce: 'pre',
    async resolveId(id, importer, options) {
      if (!isUsed || !id.endsWith('.ts') || id.endsWith('.test.ts')) return null
      const found = await this.resolve(id, importer, { ...options, skipSelf: true })
      if (!found?.id.startsWith(source)) return null
      return { id: builtPath(found.id, source, build), external: true }
    },
  }
}

function isFresh(source: string, build: string): boolean {
  for (const name of readdirSync(source, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts') || name.endsWith('.test.ts')) continue
    const built = statSync(builtPath(source + name, source, build), { throwIfNoEntry: false })
    if (!built || built.mtimeMs < statSync(source + name).mtimeMs) return false
  }
  return true
}

function builtPath(path: string, source: string, build: string): string {
  return build + path.slice(source.length).replace(/\.ts$/, '.js')
}
