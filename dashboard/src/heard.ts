// The time of the last response or message of the server: the age of everything on the page.

import { signal } from '@preact/signals'

/** Null: nothing has been received yet. */
export const heardAt = signal<number | null>(null)

export function heard(): void {
  heardAt.value = Date.now()
}
