// TypeScript through the user's esbuild: a loader that turns .ts into .js as it is imported. Used only where Node cannot
// do it by itself.

import { register } from 'node:module'
import { pathToFileURL } from 'node:url'

export function registerHooks(esbuild: string): void {
  const source = `
    import { readFile } from 'node:fs/promises'
    import { fileURLToPath } from 'node:url'
    let transform
    export async function initialize(data) {
      const loaded = await import(data.esbuild)
      transform = (loaded.default ?? loaded).transform
    }
    export async function load(url, context, next) {
      if (!/^file:.*\\.[cm]?ts$/.test(url)) return next(url, context)
      const text = await readFile(fileURLToPath(url), 'utf8')
      const { code } = await transform(text, { loader: 'ts', format: 'esm', sourcemap: 'inline', sourcefile: url })
      return { format: 'module', source: code, shortCircuit: true }
    }
  `
  register(`data:text/javascript,${encodeURIComponent(source)}`, import.meta.url, {
    data: { esbuild: pathToFileURL(esbuild).href },
  })
}
