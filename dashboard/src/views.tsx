// Saved views: a name for the filters of the list of runs. They are kept in the storage of this browser; a link to a view is its
// address, which holds the filters themselves.

import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { hrefOf, place } from './route.ts'
import { Button, Copy, Dialog, Icon } from './ui.tsx'

export interface SavedView {
  readonly name: string
  /** The query of its address. */
  readonly query: string
}

const key = `reprise-views ${location.pathname}`
const viewsMax = 50
const nameMax = 60
/** Filters of the list. The page within it is not part of a view. */
const filters = ['text', 'kind', 'status', 'attention', 'time', 'all']

function stored(): readonly SavedView[] {
  try {
    const views = JSON.parse(localStorage.getItem(key) ?? '[]') as unknown
    return Array.isArray(views) ? views.filter(isView) : []
  } catch {
    return []
  }
}

function isView(value: unknown): value is SavedView {
  const { name, query } = (value ?? {}) as Partial<SavedView>
  return typeof name === 'string' && typeof query === 'string'
}

export const savedViews = signal(stored())

// Another tab of this browser has saved or removed one.
window.addEventListener('storage', (event) => {
  if (event.key === key) savedViews.value = stored()
})

function keep(views: readonly SavedView[]): void {
  savedViews.value = views
  localStorage.setItem(key, JSON.stringify(views))
}

export function hrefOfView({ query }: SavedView): string {
  return hrefOf(['runs'], new URLSearchParams(query))
}

/** The filters of the address, in one order; empty: there is none. */
function viewed(): string {
  const { query } = place.value
  const pairs = filters.flatMap((name) => query.getAll(name).map((value) => [name, value]))
  return new URLSearchParams(pairs).toString()
}

export function Views() {
  const [isNaming, setNaming] = useState(false)
  const query = viewed()
  const isKnown = savedViews.value.some((view) => view.query === query)
  if (savedViews.value.length === 0 && query === '') return null
  return (
    <nav class="kinds views" aria-label="Saved views">
      {savedViews.value.map((view) => (
        <span key={view.name} class="view">
          <a href={hrefOfView(view)} aria-current={view.query === query ? 'true' : undefined}>
            {view.name}
          </a>
          <button
            type="button"
            class="icon-button"
            aria-label={`Remove the view ${view.name}`}
            title="Remove this view"
            onClick={() => keep(savedViews.value.filter(({ name }) => name !== view.name))}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
      {query !== '' && !isKnown && (
        <Button tone="quiet" onClick={() => setNaming(true)}>
          Save this view…
        </Button>
      )}
      {isNaming && <NameDialog query={query} onClose={() => setNaming(false)} />}
    </nav>
  )
}

function NameDialog({ query, onClose }: { query: string; onClose: () => void }) {
  const [name, setName] = useState('')
  const given = name.trim()
  const others = savedViews.value.filter((view) => view.name !== given)
  const isFull = others.length >= viewsMax
  const view = { name: given, query }
  return (
    <Dialog title="Save this view" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          keep([...others, view])
          onClose()
        }}
      >
        <label>
          <span>Name</span>
          <input
            type="text"
            name="view"
            maxLength={nameMax}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <p class="dim">
          {isFull
            ? `This browser holds ${viewsMax} views: remove one first.`
            : 'Kept in this browser. For others, copy the link:'}{' '}
          <Copy text={new URL(hrefOfView(view), location.href).href} label="Copy the link" />
        </p>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <button type="submit" class="button primary" disabled={given === '' || isFull}>
            {savedViews.value.length === others.length ? 'Save' : 'Replace'}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
