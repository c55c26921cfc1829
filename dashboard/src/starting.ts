// The dialog that starts a run, opened from any screen.

import { signal } from '@preact/signals'

/** Null: closed. `name`: the definition that is chosen first. */
export const starting = signal<{ readonly name: string | null } | null>(null)

export function startRun(name: string | null = null): void {
  starting.value = { name }
}
