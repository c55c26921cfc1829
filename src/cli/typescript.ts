// Resolves TypeScript imports: `./x.js` finds `x.ts` if there is no `x.js`, like the compiler; if Node cannot strip types
// itself, the user's esbuild turns .ts into .js.

import { register } from 'node:module'
import { pathToFileURL } from 'node:url'

/** Registers the hooks; returns the module that registers them in another Node (for --import). `null`: Node strips types. */
export function registerHooks(esbuild: string | null): string {
  const loader = `data:text/javascript,${encodeURIComponent(hooksSource)}`
  const data = { esbuild: esbuild === null ? null : pathToFileURL(esbuild).href }
  register(loader, import.meta.url, { data })
  const registering = `import { register } from 'node:module'
register(${JSON.stringify(loader)}, 'file:///', { data: ${JSON.stringify(data)} })`
  return `data:text/javascript,${encodeURIComponent(registering)}`
}

const hooksSource = `
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
let transform = null
export async function initialize(data) {
  if (data.esbuild === null) return
  const loaded = await import(data.esbuild)
  transform = (loaded.default ?? loaded).transform
}
// The existing file is tried first; then the source that the compiler would make it of.
export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context)
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || !/^[.]{0,2}[/]|^file:/.test(specifier)) throw error
    for (const [js, sources] of [[/[.]js$/, ['.ts', '.tsx']], [/[.]mjs$/, ['.mts']], [/[.]cjs$/, ['.cts']]]) {
      if (!js.test(specifier)) continue
      for (const source of sources) {
        const url = new URL(specifier.replace(js, source), context.parentURL)
        if (existsSync(fileURLToPath(url))) return await next(url.href, context)
      }
    }
    throw error
  }
}
export async function load(url, context, next) {
  const isTypeScript = /^file:[^?#]*[.][cm]?tsx?$/.test(url)
  if (transform === null || !isTypeScript) return next(url, context)
  const text = await readFile(fileURLToPath(url), 'utf8')
  const loader = url.endsWith('x') ? 'tsx' : 'ts'
  const { code } = await transform(text, { loader, format: 'esm', sourcemap: 'inline', sourcefile: fileURLToPath(url) })
  return { format: 'module', source: code, shortCircuit: true }
}
`
