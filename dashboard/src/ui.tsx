// Small parts that every screen is made of.

import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { download, type Problem, problemOf } from './api.ts'
import { exact, relative } from './format.ts'
import { now } from './live.ts'
import { hrefOf } from './route.ts'
import { type Tone, toneOf } from './statuses.ts'

export function Status({ status }: { status: string }) {
  return (
    <span class={`status tone-${toneOf(status)}`}>
      <i aria-hidden="true" />
      {status || 'no status'}
    </span>
  )
}

export function Chip({ tone = 'calm', children, title }: { tone?: Tone; children: ComponentChildren; title?: string }) {
  return (
    <span class={`chip tone-${tone}`} title={title}>
      {children}
    </span>
  )
}

/** Relative, with the exact time as a tooltip. */
export function Time({ at }: { at: number | null | undefined }) {
  if (at === null || at === undefined || at === 0) return <span class="dim">never</span>
  return (
    <time dateTime={new Date(at).toISOString()} title={exact(at)}>
      {relative(at, now.value)}
    </time>
  )
}

/** A link to the page of a timeline. */
export function TimelineLink({ id, tab = null }: { id: string; tab?: string | null }) {
  return (
    <span class="id-cell">
      <a href={hrefOf(['t', id], { tab })} title={id}>
        <span class="id">{id}</span>
      </a>
    </span>
  )
}

/** The API response behind the view, in a tab of its own. */
export function OpenJson({ href }: { href: string }) {
  const open = async (event: Event) => {
    event.preventDefault()
    // Opened before the request: a browser blocks windows that open later.
    const tab = window.open('', '_blank')
    try {
      const { href: file } = await download(href)
      if (tab) tab.location.href = file
    } catch (error) {
      tab?.close()
      toast(problemOf(error).detail, 'bad')
    }
  }
  return (
    <a class="button quiet" href={href} target="_blank" rel="noreferrer" onClick={open}>
      Open JSON
    </a>
  )
}

/** A response that is saved as a file. */
export function Download({ href, label }: { href: string; label: string }) {
  const save = async (event: Event) => {
    event.preventDefault()
    try {
      const file = await download(href)
      const link = Object.assign(document.createElement('a'), { href: file.href, download: file.name ?? '' })
      link.click()
      setTimeout(() => URL.revokeObjectURL(file.href), 60_000)
    } catch (error) {
      toast(problemOf(error).detail, 'bad')
    }
  }
  return (
    <a class="button quiet" href={href} download onClick={save}>
      {label}
    </a>
  )
}

export function Copy({ text, label, children }: { text: string; label: string; children?: ComponentChildren }) {
  const [isDone, setDone] = useState(false)
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setDone(true)
      setTimeout(() => setDone(false), 1200)
    } catch {
      toast(`Not copied: the browser does not allow it. ${text}`, 'bad')
    }
  }
  return (
    <button
      type="button"
      class={children ? 'button quiet' : 'icon-button'}
      title={label}
      aria-label={label}
      onClick={copy}
    >
      {isDone ? <Icon name="check" /> : <Icon name="copy" />}
      {children}
    </button>
  )
}

const paths: Readonly<Record<string, string>> = {
  copy: 'M6 6V3.5A1.5 1.5 0 0 1 7.5 2h5A1.5 1.5 0 0 1 14 3.5v5a1.5 1.5 0 0 1-1.5 1.5H10M3.5 6h5A1.5 1.5 0 0 1 10 7.5v5A1.5 1.5 0 0 1 8.5 14h-5A1.5 1.5 0 0 1 2 12.5v-5A1.5 1.5 0 0 1 3.5 6Z',
  check: 'm3 8.5 3.2 3.2L13 4.8',
  close: 'm4 4 8 8m0-8-8 8',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14',
  sun: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1',
  moon: 'M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z',
  help: 'M6 6a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.1v.5M8 12v.2M8 15A7 7 0 1 0 8 1a7 7 0 0 0 0 14Z',
  step: 'M3 3h10v10H3z',
  wait: 'M8 4.5V8l2.3 1.4M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Z',
  child: 'M4 3v6a2 2 0 0 0 2 2h6M9.5 8.5 12 11l-2.5 2.5',
  message: 'M2.5 4h11v8h-11zM2.5 4 8 9l5.5-5',
  undo: 'M5.5 3 2.5 6l3 3M3 6h6a4 4 0 0 1 0 8H6',
  note: 'M3 8h10',
  start: 'm5 3 8 5-8 5z',
  end: 'M4 2v12M4 3h8l-2 3 2 3H4',
  alert: 'M8 6v3.2M8 11.4v.1M8 2 1.8 13h12.4L8 2Z',
  fork: 'M4 5.5v5M4 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm0 8a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm8-8a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm0 0C12 8 4 7 4 10.5',
  chevron: 'm6 4 4 4-4 4',
}

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={paths[name] ?? paths.note} />
    </svg>
  )
}

export function Button(props: {
  onClick: () => void
  children: ComponentChildren
  tone?: 'primary' | 'danger' | 'quiet'
  disabled?: boolean
  title?: string | undefined
}) {
  const { onClick, children, tone, disabled, title } = props
  return (
    <button type="button" class={`button ${tone ?? ''}`} disabled={disabled} title={title} onClick={onClick}>
      {children}
    </button>
  )
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      <div>{children}</div>
    </div>
  )
}

export function Problems({ problem, retry }: { problem: Problem | null; retry?: () => void }) {
  if (!problem) return null
  return (
    <div class="problem" role="alert">
      <Icon name="alert" />
      <div>
        <strong>{problem.detail}</strong>
        <p>
          {problem.hint} <code>{problem.code}</code>
        </p>
      </div>
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  )
}

/** The place that a dialog is read and filled in from; otherwise the button that closes it would have the focus. */
const firstField = 'input, textarea, select, footer button[type=submit], footer button'

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; isWide?: boolean }) {
  const { title, onClose, children, isWide } = props
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const { current } = ref
    const before = document.activeElement as HTMLElement | null
    current?.showModal()
    current?.querySelector<HTMLElement>(firstField)?.focus()
    // The dialog belongs to the screen that it was opened on: Back leads to another screen, and nothing covers that one.
    window.addEventListener('hashchange', onClose)
    return () => {
      window.removeEventListener('hashchange', onClose)
      current?.close()
      // The place that the dialog was opened from may be gone: for example, the run has ended.
      if (before?.isConnected) before.focus()
    }
  }, [])
  return (
    <dialog
      ref={ref}
      class={isWide ? 'wide' : ''}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  )
}

interface Toast {
  readonly id: number
  readonly text: string
  readonly tone: Tone
}

const toasts = signal<readonly Toast[]>([])
let toastId = 0

export function toast(text: string, tone: Tone = 'good'): void {
  const id = ++toastId
  toasts.value = [...toasts.value, { id, text, tone }]
  setTimeout(() => {
    toasts.value = toasts.value.filter((each) => each.id !== id)
  }, 6000)
}

export function toastProblem(error: unknown): void {
  const { detail, code } = problemOf(error)
  toast(`${detail} (${code})`, 'bad')
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, tone }) => (
        <div key={id} class={`toast tone-${tone}`}>
          {text}
        </div>
      ))}
    </div>
  )
}

/** The equivalent command for a terminal. */
export function CommandLine({ command }: { command: string }) {
  return (
    <div class="command">
      <code>{command}</code>
      <Copy text={command} label="Copy as command line" />
    </div>
  )
}

export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
