"use strict";
// Plays films of traffic on canvases: one for each of two policies, with common controls.
(() => {
  const LIGHTS = ["#D55E00", "#F0C419", "#009E73"]; // red, yellow, green that the colour-blind can tell apart
  const CARS = [[0, 32, 77], [49, 68, 107], [102, 105, 112], [149, 143, 120], [202, 185, 105], [230, 200, 60]];
  const FASTEST = 30; // metres a second at the end of the colours, where a film has no other
  const SIZES = { street: 14, stop_line: 7, car: 6 }; // metres, likewise
  const SPEEDS = [1, 2, 5, 10, 20, 50];

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const words = (text) => new Uint16Array(bytes(text).buffer);

  function element(tag, attributes = {}, text = "") {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  }

  function colour(speed, fastest) {
    const place = Math.min(1, Math.max(0, speed / fastest)) * (CARS.length - 1);
    const first = Math.min(CARS.length - 2, Math.floor(place)), rest = place - first;
    const mixed = CARS[first].map((x, i) => Math.round(x + rest * (CARS[first + 1][i] - x)));
    return `rgb(${mixed.join(",")})`;
  }

  // Cars have a way along one of few routes, or, in a city, a place and a direction, of which a circle has 256.
  function decode(scene, routes) {
    const counts = words(scene.counts), begins = [0];
    for (let k = 0; k < counts.length; k++) begins.push(begins[k] + counts[k]);
    return {
      ...scene, counts, begins, routes,
      along: scene.along && words(scene.along), places: scene.places && words(scene.places),
      directions: scene.directions && bytes(scene.directions),
      speeds: bytes(scene.speeds), lights: bytes(scene.lights),
    };
  }

  function bounds(film) {
    if (film.box) return film.box;
    const xs = film.streets.flatMap((s) => s.map((p) => p[0])), ys = film.streets.flatMap((s) => s.map((p) => p[1]));
    const edge = 15;
    const [left, right, top, bottom] = [Math.min(...xs) - edge, Math.max(...xs) + edge, Math.min(...ys) - edge,
      Math.max(...ys) + edge];
    return { left, top, width: right - left, height: bottom - top };
  }

  // A moment between two seconds: cars of the later one, moved back by what is left of their way.
  function draw(canvas, film, scene, box, time) {
    const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    const height = Math.round(width * box.height / box.width);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d"), scale = canvas.width / box.width, sizes = film.sizes || SIZES;
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(scale, 0, 0, scale, -box.left * scale, -box.top * scale);
    pen.strokeStyle = "#E4E4E4";
    pen.lineWidth = sizes.street;
    pen.beginPath();
    for (const [from, ...others] of film.streets) { pen.moveTo(...from); for (const to of others) pen.lineTo(...to); }
    pen.stroke();
    const second = Math.min(scene.seconds - 1, Math.ceil(time)), left = second - time;
    const lines = film.stop_lines.length;
    pen.lineWidth = sizes.stop_line;
    film.stop_lines.forEach(([from, to], k) => {
      pen.strokeStyle = LIGHTS[scene.lights[second * lines + k]];
      pen.beginPath(); pen.moveTo(...from); pen.lineTo(...to); pen.stroke();
    });
    let cars = 0, standing = 0;
    for (let route = 0; route < scene.routes; route++) {
      const k = second * scene.routes + route;
      for (let c = scene.begins[k]; c < scene.begins[k + 1]; c++) {
        const speed = scene.speeds[c] * film.speed_unit;
        let x, y;
        if (scene.places) {
          const turn = scene.directions[c] * Math.PI / 128;
          x = box.left + scene.places[2 * c] * film.unit - speed * left * Math.sin(turn);
          y = box.top + scene.places[2 * c + 1] * film.unit + speed * left * Math.cos(turn);
        } else {
          const way = Math.max(0, scene.along[c] * film.unit - speed * left);
          x = film.start[route][0] + way * film.ahead[route][0];
          y = film.start[route][1] + way * film.ahead[route][1];
        }
        pen.fillStyle = colour(speed, film.fastest || FASTEST);
        pen.beginPath(); pen.arc(x, y, sizes.car, 0, 2 * Math.PI); pen.fill();
        cars += 1;
        if (speed <= 0.3) standing += 1;
      }
    }
    return { second, cars, standing };
  }

  window.factoraxFilm = (root, film) => {
    const routes = film.start ? film.start.length : 1;
    const scenes = film.scenes.map((scene) => decode(scene, routes)), box = bounds(film);
    const shown = scenes.slice(0, 2).map((_, i) => i);
    const seconds = Math.min(...scenes.map((scene) => scene.seconds));
    const stage = root.appendChild(element("div", { class: "film-stage" }));
    const views = shown.map((index, place) => {
      const view = stage.appendChild(element("figure", { class: "film-view" }));
      if (scenes.length > 2) {
        const label = view.appendChild(element("label", {}, place ? "Right: " : "Left: "));
        const select = label.appendChild(element("select", { class: "film-choice" }));
        scenes.forEach((scene, i) => select.appendChild(element("option", { value: i }, scene.title)));
        select.value = String(index);
        select.addEventListener("change", () => { shown[place] = Number(select.value); paint(); });
      }
      const canvas = view.appendChild(element("canvas", { class: "film-canvas", role: "img" }));
      return { canvas, caption: view.appendChild(element("figcaption", { class: "film-caption" })) };
    });
    const controls = root.appendChild(element("div", { class: "film-controls" }));
    const button = controls.appendChild(element("button", { type: "button", class: "film-play" }, "Play"));
    const slider = controls.appendChild(element("input", {
      type: "range", class: "film-time", min: 0, max: seconds - 1, step: 0.1, value: 0, "aria-label": "second of the film",
    }));
    const pace = controls.appendChild(element("label", { class: "film-pace" }, "Speed "))
      .appendChild(element("select", { class: "film-speed" }));
    for (const each of [...new Set([...SPEEDS, film.speed || 10])].sort((a, b) => a - b)) {
      pace.appendChild(element("option", { value: each }, `${each} ×`));
    }
    pace.value = String(film.speed || 10);
    let time = 0, playing = false, last = 0;

    function paint() {
      views.forEach(({ canvas, caption }, place) => {
        const scene = scenes[shown[place]], now = draw(canvas, film, scene, box, time);
        if (!now) return;
        const lost = scene.returns ? `, return ${scene.returns[now.second].toFixed(0).replace("-", "−")}` : "";
        const text = `${scene.title}, ${now.second + 1} s: ${now.cars} cars, ${now.standing} standing${lost}`;
        caption.textContent = text;
        canvas.setAttribute("aria-label", text);
      });
      slider.value = String(time);
      slider.setAttribute("aria-valuetext", `${Math.round(time) + 1} seconds`);
    }

    function tick(now) {
      if (!playing || !root.isConnected) return;
      time += Math.min(0.25, Math.max(0, now - last) / 1000) * Number(pace.value); // a frame may begin before its call
      last = now;
      if (time >= seconds - 1) time = 0;
      paint();
      requestAnimationFrame(tick);
    }

    function play(on) {
      playing = on;
      button.textContent = on ? "Pause" : "Play";
      last = performance.now();
      if (on) requestAnimationFrame(tick);
    }

    button.addEventListener("click", () => play(!playing));
    slider.addEventListener("input", () => { play(false); time = Number(slider.value); paint(); });
    new ResizeObserver(paint).observe(stage);
    paint();
    if (film.autoplay && !matchMedia("(prefers-reduced-motion: reduce)").matches) play(true);
  };

  const data = document.getElementById("film-data");
  if (data) window.factoraxFilm(document.getElementById("film"), JSON.parse(data.textContent));
})();
