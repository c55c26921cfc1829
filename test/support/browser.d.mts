// Types of browser.mjs, which has none so that benches run it as it is.

import type { Browser } from 'playwright-core'

export type FoundBrowser =
  | { readonly path: string; readonly env: Readonly<Record<string, string>>; readonly isPacked: boolean }
  | { readonly missing: string }

export function findBrowser(): Promise<FoundBrowser>
export function launch(found: FoundBrowser): Promise<Browser>
