// Search runs in a worker, and a browser starts none for a page that was opened as a file. There this one takes its
// place: it runs the script in a hidden frame. The theme looks for its name, IFrameWorker, to find its own scripts.
"use strict";
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      this.#ready = new Promise((done) => this.#frame.addEventListener("load", done, { once: true })).then(() => {
        const scope = this.#frame.contentWindow;
        scope.postMessage = (data) => this.#answer(data);
        scope.importScripts = (...urls) => urls.reduce((earlier, one) => earlier.then(() => this.#run(one)), Promise.resolve());
        return this.#run(url);
      });
      document.body.append(this.#frame);
    }

    postMessage(data) {
      this.#ready.then(() => {
        const message = new MessageEvent("message", { data: structuredClone(data) });
        this.#frame.contentWindow.dispatchEvent(message);
      });
    }

    terminate() {
      this.#frame.remove();
    }

    #answer(data) {
      const message = new MessageEvent("message", { data });
      this.dispatchEvent(message);
      this.onmessage?.(message);
    }

    #run(url) {
      return new Promise((done, failed) => {
        const page = this.#frame.contentDocument;
        const script = page.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = () => failed(new Error(`${url} cannot be loaded`));
        page.body.append(script);
      });
    }
  }
  window.IFrameWorker = FrameWorker;
  window.Worker = FrameWorker;
}
