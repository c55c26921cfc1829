// Loads a user's module, including TypeScript: by Node itself if it can (22.18 and 23.6 or later), otherwise through the
// user's esbuild (installed directly or with tsx), otherwise with a message on what to do.

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { RepriseError } from '../core/errors.ts'
import { runtime } from '../lib/runtime/index.ts'
import { notePlace, placeOfSyntaxError } from './error-location.ts'

export async function loadModule(file: string): Promise<Record<string, unknown>> {
  const path = resolve(file)
  if (!existsSync(path)) throw new RepriseError('NOT_FOUND', `there is no file ${file}`, { file })
  const hooks = /\.[cm]?tsx?$/.test(path) ? await enableTypeScript(path) : null
  const url = pathToFileURL(path).href
  try {
    return (await import(url)) as Record<string, unknown>
  } catch (error) {
    notePlace(error, placeOfSyntaxError(error, url, hooks))
    throw error
  }
}

function canStripTypes(): boolean {
  return Boolean((process.features as { typescript?: unknown }).typescript)
}

/** Returns the hooks for another Node process. */
async function enableTypeScript(path: string): Promise<string> {
  const { registerHooks } = await import('./typescript.ts')
  if (canStripTypes()) return registerHooks(null)
  // The user's own esbuild, resolved from the user's file; tsx includes it.
  const from = createRequire(path)
  const tsx = find(from, 'tsx/package.json')
  const esbuild = find(from, 'esbuild') ?? (tsx && find(createRequire(tsx), 'esbuild'))
  if (!esbuild) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `Node ${runtime.version} cannot run TypeScript: use Node 22.18 or newer, run npm install --save-dev tsx, or name a .js or .mjs file`,
      { file: path },
    )
  }
  return registerHooks(esbuild)
}

function find(from: NodeJS.Require, name: string): string | null {
  try {
    return from.resolve(name)
  } catch {
    return null
  }
}
