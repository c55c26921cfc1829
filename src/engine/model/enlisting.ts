// The part of a definition in requests in a transaction of the application: the request of a start or a message, and the handle
// of the started run once the transaction has committed. The engine writes the request.

import type { NewRequest } from '../../core/store/ports.ts'
import type { LayerHost } from './definition.ts'

export const enlists: unique symbol = Symbol.for('reprise.enlists')
export const enlistsMail: unique symbol = Symbol.for('reprise.enlistsMail')
export const enlistsSend: unique symbol = Symbol.for('reprise.enlistsSend')
export const enlistsItems: unique symbol = Symbol.for('reprise.enlistsItems')
export const enlistsAppend: unique symbol = Symbol.for('reprise.enlistsAppend')

/** A request without the identity of the store, which the engine adds. */
export type RequestDraft = Omit<NewRequest, 'store'>

export interface Enlistment<Handle> {
  readonly draft: RequestDraft
  readonly id: string
  readonly timeline: string
  /** Called once the start was carried out. Throws the same errors as the call outside of a transaction. */
  handle(): Promise<Handle>
}

/** A process whose runs can start in a transaction. */
export interface Enlistable<Input, Handle, Options> {
  readonly name: string
  [enlists](host: LayerHost, input: Input, options: Options): Promise<Enlistment<Handle>>
}

/** A process whose runs receive signals, and can be cancelled. */
export interface EnlistsMail {
  readonly name: string
  [enlistsMail](
    host: LayerHost,
    mail: { readonly verb: 'signal' | 'cancel'; readonly id: string; readonly data: unknown; readonly key?: string },
  ): RequestDraft
}

/** A message that knows its receiver. @example commandTo(account, 'ann', 'deposit', { amount: 5 }) */
export interface Sendable<Options> {
  [enlistsSend](host: LayerHost, options: Options): RequestDraft
}

/** A definition to whose timelines entries can be appended by mail. */
export interface EnlistsAppend<E> {
  readonly name: string
  [enlistsAppend](host: LayerHost, id: string, entries: E | readonly E[], key: string): RequestDraft
}

/** A queue of items for a job. */
export interface EnlistsItems<T> {
  readonly name: string
  [enlistsItems](host: LayerHost, items: readonly T[], key: string): RequestDraft
}

declare const carries: unique symbol

/** A signal whose value is a T. */
export interface SignalDefinition<T> {
  readonly kind: 'signal'
  readonly name: string
  readonly [carries]?: (value: T) => T
}

/** The value of a message; optional if its type allows undefined. */
export type Carried<T> = undefined extends T ? [value?: T] : [value: T]
