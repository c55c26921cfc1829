// Loading a user's module, TypeScript included: by Node itself where it can (22.18 and 23.6 on), else through tsx or
// esbuild if the user has one of them, else with a message that says what to do.

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { RepriseError } from '../core/errors.ts'

export async function loadModule(file: string): Promise<Record<string, unknown>> {
  const path = resolve(file)
  if (!existsSync(path)) throw new RepriseError('NOT_FOUND', `there is no file ${file}`, { file })
  if (/\.[cm]?tsx?$/.test(path) && !canStripTypes()) await enableTypeScript(path)
  return (await import(pathToFileURL(path).href)) as Record<string, unknown>
}

function canStripTypes(): boolean {
  return Boolean((process.features as { typescript?: unknown }).typescript)
}

async function enableTypeScript(path: string): Promise<void> {
  // The user's own, from where the user's file is.
  const from = createRequire(path)
  const tsx = find(from, 'tsx/esm/api')
  if (tsx) {
    const { register } = (await import(pathToFileURL(tsx).href)) as { register(): unknown }
    register()
    return
  }
  const esbuild = find(from, 'esbuild')
  if (esbuild) {
    const { registerHooks } = await import('./typescript.ts')
    registerHooks(esbuild)
    return
  }
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `Node ${process.versions.node} cannot run TypeScript by itself: use Node 22.18 or newer, or npm install --save-dev tsx, or name a .js or .mjs file`,
    { file: path },
  )
}

function find(from: NodeJS.Require, name: string): string | null {
  try {
    return from.resolve(name)
  } catch {
    return null
  }
}
